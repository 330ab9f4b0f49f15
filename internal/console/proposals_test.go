package console_test

import (
	"context"
	"errors"
	"flag"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

var update = flag.Bool("update", false, "write the pages that tests expect")

// A fakeWriter keeps what is written, in order.
type fakeWriter struct {
	mutex  sync.Mutex
	rules  map[string]*resourceapi.DeviceTaintRule
	drains map[string]*v1alpha1.DeviceDrain
	wrote  []string
	// refused is the answer to writes, dry ones too, and warnings come with those.
	refused  error
	warnings []string
	// hold, if it is not nil, is received from before a write ends.
	hold chan struct{}
}

func (w *fakeWriter) User(context.Context) (string, error)     { return "jane", nil }
func (w *fakeWriter) Faults(context.Context) ([]string, error) { return nil, nil }

func (w *fakeWriter) did(what string, dry bool) error {
	if w.refused != nil {
		return w.refused
	}
	if !dry {
		if w.hold != nil {
			<-w.hold
		}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.wrote = append(w.wrote, what)
	}
	return nil
}

func (w *fakeWriter) all() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Clone(w.wrote)
}

func (w *fakeWriter) Rule(_ context.Context, name string) (*resourceapi.DeviceTaintRule, error) {
	return w.rules[name], nil
}

func (w *fakeWriter) ApplyRule(_ context.Context, intent taints.Intent, _ *resourceapi.DeviceTaintRule, dry bool) (string, []string, error) {
	rule := intent.Rule()
	return "created", w.warnings, w.did("apply "+rule.Name+" "+rule.Annotations[v1alpha1.OwnerAnnotation]+" "+rule.Annotations[v1alpha1.AcknowledgementAnnotation], dry)
}

func (w *fakeWriter) DeleteRule(_ context.Context, stored *resourceapi.DeviceTaintRule, dry bool) ([]string, error) {
	return nil, w.did("delete "+stored.Name, dry)
}

func (w *fakeWriter) Drain(_ context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	return w.drains[name], nil
}

func (w *fakeWriter) CreateDrain(_ context.Context, d *v1alpha1.DeviceDrain, dry bool) ([]string, error) {
	return nil, w.did("create "+d.Name, dry)
}

func (w *fakeWriter) PauseDrain(_ context.Context, d *v1alpha1.DeviceDrain, paused, dry bool) ([]string, error) {
	if paused {
		return nil, w.did("pause "+d.Name, dry)
	}
	return nil, w.did("continue "+d.Name, dry)
}

func (w *fakeWriter) DeleteDrain(_ context.Context, d *v1alpha1.DeviceDrain, dry bool) ([]string, error) {
	return nil, w.did("cancel "+d.Name, dry)
}

// small is a cluster with a device that claims hold, each with a pod.
func small(claims int, rules ...any) fleet.Input {
	node := "node-1"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node,
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}, Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	in := fleet.Input{View: tracker.Merge(append([]any{slice}, rules...)...), Thresholds: taints.Thresholds{Thresholds: guard.DefaultThresholds(), From: "default"}}
	for i := range claims {
		name := "train-" + string(rune('a'+i))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("pod " + name)}, Spec: corev1.PodSpec{NodeName: node, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("claim " + name)}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
		in.Claims, in.Pods = append(in.Claims, claim), append(in.Pods, pod)
	}
	return in
}

// A writing is a console that writes, with the browser of its user.
type writing struct {
	t       *testing.T
	server  *console.Server
	handler http.Handler
	writer  *fakeWriter
	user    func(*http.Request)
	token   string
	now     time.Time
}

func allowWrites(t *testing.T, in fleet.Input) *writing {
	t.Helper()
	w := &writing{t: t, writer: &fakeWriter{}, now: clock()}
	var err error
	if w.server, err = console.New(console.Options{Cluster: "test", Now: func() time.Time { return w.now }, Writer: w.writer}); err != nil {
		t.Fatal(err)
	}
	w.show(in)
	g := console.NewGate(port)
	g.AllowWrites()
	w.handler = w.server.Handler(g)
	w.user = enter(t, g, w.handler)
	body := answer(w.handler, "GET", "/taints", w.user).Body.String()
	found := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("no form:\n%s", body)
	}
	w.token = found[1]
	return w
}

func (w *writing) show(in fleet.Input) {
	w.t.Helper()
	f, err := fleet.Build(w.t.Context(), in, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.server.Show(f)
}

// post sends a form as the browser does.
func (w *writing) post(target string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	form.Set("form", w.token)
	return postForm(w.handler, target, form.Encode(), append([]func(*http.Request){w.user, header("Origin", "http://127.0.0.1:8099"), header("Content-Type", "application/x-www-form-urlencoded")}, change...)...)
}

func postForm(handler http.Handler, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8099", "127.0.0.1:40000"
	for _, f := range change {
		f(r)
	}
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	return rec
}

// preview sends a form and returns the page of its preview, and the form that confirms it.
func (w *writing) preview(pairs ...string) (address, body string, confirm url.Values) {
	w.t.Helper()
	rec := w.post("/preview", values(pairs...))
	if rec.Code != http.StatusSeeOther {
		w.t.Fatalf("%v: %d %s", pairs, rec.Code, rec.Body)
	}
	address = rec.Header().Get("Location")
	return w.read(address)
}

func (w *writing) read(address string) (_, body string, confirm url.Values) {
	w.t.Helper()
	rec := answer(w.handler, "GET", address, w.user)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", address, rec.Code, rec.Body)
	}
	confirm = url.Values{}
	for _, name := range []string{"id", "seen"} {
		if found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(rec.Body.String()); found != nil {
			confirm.Set(name, html.UnescapeString(found[1]))
		}
	}
	return address, rec.Body.String(), confirm
}

func values(pairs ...string) url.Values {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func (w *writing) expect(body string, texts ...string) {
	w.t.Helper()
	text := html.UnescapeString(body)
	for _, want := range texts {
		if !strings.Contains(text, want) {
			w.t.Errorf("no %q in\n%s", want, mainOf(body))
		}
	}
}

func mainOf(body string) string {
	_, rest, _ := strings.Cut(body, `tabindex="-1">`)
	text, _, _ := strings.Cut(rest, "</main>")
	return text
}

// golden compares the content of a page with a file.
func golden(t *testing.T, name, body string) {
	t.Helper()
	got := regexp.MustCompile(`value="[A-Za-z0-9_-]{43}"|id=[A-Za-z0-9_-]{43}`).ReplaceAllString(strings.TrimSpace(mainOf(body)), `value="RANDOM"`) + "\n"
	file := filepath.Join("testdata", name+".html")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update writes it:\n%s", file, got)
	}
}

func taintForm(more ...string) []string {
	return append([]string{"verb", "taint", "target", "gpu.example.com/node-1/gpu-0", "key", "example.com/broken", "effect", "NoExecute", "reason", "fan & <heat>"}, more...)
}

// TestTaint: a taint is previewed with its impact and its command, and written once when it is
// confirmed.
func TestTaint(t *testing.T) {
	w := allowWrites(t, small(2))
	w.writer.warnings = []string{"evicts 2 pods <b>"}
	address, body, confirm := w.preview(taintForm("ticket", "OPS-1", "for", "2d")...)
	golden(t, "taint", body)
	w.expect(body, "Nothing has been changed", "evicts team-a/train-a", "evicts team-a/train-b", "evicts 2 pods <b>", "owner: jane", "until 2026-11-2",
		`dra-steward taint gpu.example.com/node-1/gpu-0 example.com/broken:NoExecute --for 2d --reason 'fan & <heat>' --ticket OPS-1`)
	if got := w.writer.all(); len(got) > 0 {
		t.Fatalf("the preview wrote %q", got)
	}
	for range 3 { // a double submit
		if rec := w.post("/confirm", confirm); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != address {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
	if got := w.writer.all(); len(got) != 1 || !strings.HasPrefix(got[0], "apply taint-gpu-0-") || !strings.Contains(got[0], " jane") {
		t.Errorf("wrote %q", got)
	}
	_, body, confirm = w.read(address)
	golden(t, "taint-done", body)
	w.expect(body, "Done: devicetaintrule/taint-gpu-0-", "created")
	if confirm.Has("id") {
		t.Error("what is done can be confirmed again")
	}
}

// TestGrown: what affects more than was shown is not written, and is confirmed only after another
// look; the same holds for a preview that is old.
func TestGrown(t *testing.T) {
	w := allowWrites(t, small(1))
	address, _, confirm := w.preview(taintForm()...)
	w.show(small(3))
	for range 2 { // the second of a double submit has not seen the new numbers
		w.post("/confirm", confirm)
	}
	_, body, again := w.read(address)
	golden(t, "taint-grown", body)
	w.expect(body, "Not written", "it affects 3 pods, and the preview showed 1")
	if got := w.writer.all(); len(got) > 0 {
		t.Fatalf("wrote %q", got)
	}
	w.now = w.now.Add(16 * time.Minute)
	w.post("/confirm", again)
	_, body, again = w.read(address)
	w.expect(body, "the preview was older than 15 min")
	w.show(small(2)) // less is no reason
	w.post("/confirm", again)
	if got := w.writer.all(); len(got) != 1 {
		t.Errorf("wrote %q", got)
	}
}

// TestRefused: what the API server refuses cannot be confirmed; the words of the API server are
// shown, with what helps.
func TestRefused(t *testing.T) {
	w := allowWrites(t, small(2))
	w.writer.refused = errors.New(`admission webhook "guard.dra-steward.io" denied the request: 2 pods are more than the threshold of 1`)
	_, body, confirm := w.preview(taintForm()...)
	golden(t, "taint-refused", body)
	w.expect(body, "2 pods are more than the threshold of 1", `value="pods<=2,namespaces<=1"`)
	confirm.Set("seen", "0")
	w.post("/confirm", confirm)
	w.writer.refused = nil
	_, body, confirm = w.preview(taintForm("acknowledge", "pods<=2,namespaces<=1")...)
	w.expect(body, `--acknowledge 'pods<=2,namespaces<=1'`)
	w.post("/confirm", confirm)
	if got := w.writer.all(); len(got) != 1 || !strings.Contains(got[0], "pods<=2,namespaces<=1") {
		t.Errorf("wrote %q", got)
	}
	w.writer.refused = apierrors.NewForbidden(schema.GroupResource{Group: "resource.k8s.io", Resource: "devicetaintrules"}, "a", errors.New(`User "jane" cannot patch resource "devicetaintrules"`))
	_, body, _ = w.preview(taintForm()...)
	w.expect(body, `User "jane" cannot patch resource`, "Ask an administrator")
}

// TestWrong: a form that asks for what there is not is refused with what is wrong.
func TestWrong(t *testing.T) {
	w := allowWrites(t, small(1))
	for name, tt := range map[string]struct {
		form []string
		want string
	}{
		"no verb":       {nil, "is not taint"},
		"a device":      {taintForm("target", "gpu-7"), `no device, pool or driver "gpu-7"`},
		"a claim":       {taintForm("target", "claim/a"), "open its device"},
		"an effect":     {taintForm("effect", "Never"), "with the effect None"},
		"a key":         {taintForm("key", ""), "with the effect None"},
		"a short time":  {taintForm("for", "5s"), "--for 5s: must be at least a minute"},
		"a time":        {taintForm("for", "soon"), `--for "soon"`},
		"a reason":      {taintForm("reason", strings.Repeat("a", 300)), "--reason: 300 bytes"},
		"a ceiling":     {taintForm("acknowledge", "pods"), "--acknowledge"},
		"a rate":        {[]string{"verb", "drain", "target", "gpu-0", "rate", "many"}, "--rate"},
		"a window":      {[]string{"verb", "drain", "target", "gpu-0", "windows", "never"}, "--window"},
		"a deadline":    {[]string{"verb", "drain", "target", "gpu-0", "deadline", "x"}, "--deadline"},
		"a hostile one": {[]string{"verb", "<script>alert(1)</script>"}, "<script>alert(1)</script>"},
	} {
		rec := w.post("/preview", values(tt.form...))
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(html.UnescapeString(rec.Body.String()), tt.want) || strings.Contains(rec.Body.String(), "<script>alert") {
			t.Errorf("%s: %d, want %q: %s", name, rec.Code, tt.want, mainOf(rec.Body.String()))
		}
	}
	if rec := w.post("/confirm", values("id", "a")); rec.Code != http.StatusNotFound {
		t.Errorf("an unknown preview: %d", rec.Code)
	}
	w.server.Stale("the API server is away")
	if rec := w.post("/preview", values(taintForm()...)); !strings.Contains(rec.Body.String(), "not current") {
		t.Errorf("while it is not current: %d %s", rec.Code, rec.Body)
	}
}

// TestUntaint: only rules that the command taint has written are deleted.
func TestUntaint(t *testing.T) {
	ours := taints.Intent{Target: taints.Target{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: "NoSchedule"}}.Rule()
	other := ours.DeepCopy()
	other.Name, other.Labels = "by-hand", nil
	w := allowWrites(t, small(1, ours, other))
	w.writer.rules = map[string]*resourceapi.DeviceTaintRule{ours.Name: ours, other.Name: other}
	for _, page := range []string{"/taints", "/device?driver=gpu.example.com&pool=node-1&device=gpu-0"} {
		body := answer(w.handler, "GET", page, w.user).Body.String()
		if strings.Count(body, ">Untaint</button>") != 1 || !strings.Contains(body, `value="`+ours.Name+`"`) {
			t.Errorf("%s:\n%s", page, mainOf(body))
		}
	}
	address, body, confirm := w.preview("verb", "untaint", "rule", ours.Name)
	golden(t, "untaint", body)
	w.expect(body, "still tainted", "DeviceTaintRule by-hand has the same key", "dra-steward untaint gpu.example.com/node-1/gpu-0 example.com/broken")
	w.post("/confirm", confirm)
	_, body, _ = w.read(address)
	w.expect(body, "Done: devicetaintrule/"+ours.Name+" deleted")
	if rec := w.post("/preview", values("verb", "untaint", "rule", "by-hand")); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("a rule of others: %d", rec.Code)
	}
	_, body, _ = w.preview("verb", "untaint", "rule", "gone")
	w.expect(body, "DeviceTaintRule gone does not exist")
}

// TestDrain: a drain is previewed and created; one that exists is shown. A drain is paused, goes on,
// and is canceled.
func TestDrain(t *testing.T) {
	w := allowWrites(t, small(1))
	form := []string{"verb", "drain", "target", "gpu.example.com/node-1/gpu-0", "rate", "6", "deadline", "2h", "action", "Fail", "windows", "Sat,Sun 22:00-06:00 UTC\r\nMon 01:00-02:00 UTC", "bare", "yes", "uncordon", "yes"}
	_, body, confirm := w.preview(form...)
	golden(t, "drain", body)
	w.expect(body, "evict 1. team-a/train-a", "dra-steward drain gpu.example.com/node-1/gpu-0 --rate=6 --deadline=2h --deadline-action=Fail '--window=Sat,Sun 22:00-06:00 UTC' '--window=Mon 01:00-02:00 UTC' --evict-pods-without-controller --uncordon")
	w.post("/confirm", confirm)
	wrote := w.writer.all()
	if len(wrote) != 1 || !strings.HasPrefix(wrote[0], "create gpu-0-") {
		t.Fatalf("wrote %q", wrote)
	}
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimPrefix(wrote[0], "create "), UID: "1", Generation: 1}}
	d.Spec.Devices = []v1alpha1.DeviceName{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}
	w.writer.drains = map[string]*v1alpha1.DeviceDrain{d.Name: d}
	_, body, confirm = w.preview(form...)
	w.expect(body, "already exists for these devices")
	if confirm.Has("seen") {
		t.Error("a drain that exists can be confirmed")
	}
	in := small(1)
	in.Drains = []*v1alpha1.DeviceDrain{d}
	w.show(in)
	for _, step := range []struct {
		verb, word, want string
		paused           bool
	}{{"pause", "--pause", "no more pods are evicted", false}, {"continue", "--resume", "blocked NoController: team-a/train-a", true}, {"cancel", "--cancel", "the controller removes the cordon", true}} {
		d.Spec.Paused = step.paused
		page := answer(w.handler, "GET", "/drain?name="+d.Name, w.user).Body.String()
		if !strings.Contains(page, `data-verb="`+step.verb+`"`) {
			t.Errorf("no button %s:\n%s", step.verb, mainOf(page))
		}
		_, body, confirm := w.preview("verb", step.verb, "name", d.Name)
		golden(t, step.verb, body)
		w.expect(body, step.want, "dra-steward drain "+step.word+" "+d.Name)
		w.post("/confirm", confirm)
	}
	if got := w.writer.all(); !slices.Equal(got[1:], []string{"pause " + d.Name, "continue " + d.Name, "cancel " + d.Name}) {
		t.Errorf("wrote %q", got)
	}
}

// TestOneAtATime: while a change is written, another one is refused, and the page of the first says so.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := allowWrites(t, small(1))
		first, _, confirm := w.preview(taintForm()...)
		_, _, other := w.preview(taintForm("key", "example.com/other")...)
		w.writer.hold = make(chan struct{})
		go w.post("/confirm", confirm)
		synctest.Wait()
		if rec := w.post("/confirm", other); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "another change is being written") {
			t.Errorf("another change: %d %s", rec.Code, mainOf(rec.Body.String()))
		}
		if rec := w.post("/confirm", confirm); rec.Code != http.StatusSeeOther {
			t.Errorf("the same change: %d", rec.Code)
		}
		_, body, _ := w.read(first)
		w.expect(body, "It is being written")
		w.writer.hold <- struct{}{}
		synctest.Wait()
		_, body, _ = w.read(first)
		w.expect(body, "Done")
		if got := w.writer.all(); len(got) != 1 {
			t.Errorf("wrote %q", got)
		}
	})
}

// TestManyPreviews: only the newest previews are kept.
func TestManyPreviews(t *testing.T) {
	w := allowWrites(t, small(1))
	first, _, confirm := w.preview(taintForm()...)
	for range 64 {
		w.preview(taintForm()...)
	}
	if rec := answer(w.handler, "GET", first, w.user); rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "no longer kept") {
		t.Errorf("%d %s", rec.Code, mainOf(rec.Body.String()))
	}
	if rec := w.post("/confirm", confirm); rec.Code != http.StatusNotFound || len(w.writer.all()) > 0 {
		t.Errorf("%d, wrote %q", rec.Code, w.writer.all())
	}
}

// hidden are the fields of forms that no user sees.
var hidden = regexp.MustCompile(`<input type="hidden"[^>]*>`)

// TestHostileForms: no text of the cluster becomes markup in a form or a preview.
func TestHostileForms(t *testing.T) {
	for _, text := range evil() {
		w := allowWrites(t, hostile(text))
		w.writer.warnings, w.writer.refused = []string{text}, errors.New(text)
		d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: text}}
		w.writer.drains = map[string]*v1alpha1.DeviceDrain{text: d}
		var bodies []string
		for _, target := range pagesOf(text) {
			if len(target) < 4000 && !strings.HasPrefix(target, "/map.json") {
				bodies = append(bodies, answer(w.handler, "GET", target, w.user).Body.String())
			}
		}
		for _, form := range [][]string{taintForm("target", text), taintForm("target", text, "key", text, "value", text, "reason", text), {"verb", "untaint", "rule", text}, {"verb", "drain", "target", text},
			{"verb", "pause", "name", text}, {"verb", "cancel", "name", text}, {"verb", text}} {
			rec := w.post("/preview", values(form...))
			bodies = append(bodies, rec.Body.String())
			if address := rec.Header().Get("Location"); address != "" {
				bodies = append(bodies, answer(w.handler, "GET", address, w.user).Body.String())
			}
		}
		for _, body := range bodies {
			body = hidden.ReplaceAllString(body, "") // names as they are, for the next form
			if strings.ContainsAny(body, "\u202e\u2028\x00\x1b") || strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") || strings.Contains(body, "<b><b>") {
				t.Errorf("%.40q: is in\n%.3000s", text, mainOf(body))
			}
		}
	}
}
