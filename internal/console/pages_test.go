package console_test

import (
	"encoding/json"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// evil are texts that a driver or a tenant could write to run code in the page, to leave an
// attribute, a script or a comment, or to look like something else.
func evil() []string {
	return []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `</script><script>alert(1)</script>`, `<!--<script>`, `javascript:alert(1)`,
		`{{.Fleet}}`, "a\u202egnp.exe", "\u2028alert(1)", "a\x00b\x1b[2J", strings.Repeat("<b>", 20_000)}
}

// hostile is a cluster in which every text that the API server does not restrict is a given one.
func hostile(text string) fleet.Input {
	node := "node-1"
	device := resourceapi.Device{Name: text, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{resourceapi.QualifiedName(text): {StringValue: &text}, "model": {StringValue: &text}},
		Taints: []resourceapi.DeviceTaint{{Key: text, Value: text, Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: text}, Spec: resourceapi.ResourceSliceSpec{Driver: text, NodeName: &node, Devices: []resourceapi.Device{device},
		Pool: resourceapi.ResourcePool{Name: text, Generation: 1, ResourceSliceCount: 1}}}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: text, Annotations: map[string]string{text: text}},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &text}, Taint: resourceapi.DeviceTaint{Key: text, Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text, OwnerReferences: []metav1.OwnerReference{{Kind: text, Name: text, Controller: new(bool)}}}}
	*claim.OwnerReferences[0].Controller = true
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: text, Driver: text, Pool: text, Device: text}}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: text}}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: text, Pool: text, Device: text, Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: text}}}}
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: text}}
	drain.Spec.Devices = []v1alpha1.DeviceName{{Driver: text, Pool: text, Device: text}}
	drain.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainBlocked, Status: metav1.ConditionTrue, Reason: text, Message: text}}
	drain.Status.Blocked = []v1alpha1.DrainBlock{{Reason: text, Namespace: text, Pods: []string{text}, Budgets: []string{text}, Claim: text, Owner: text, Message: text}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text, Annotations: map[string]string{text: text}}, Spec: corev1.PodSpec{NodeName: node,
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &text}}}, Status: corev1.PodStatus{Message: text}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: corev1.ResourceName("claim:gpu"),
		Resources: []corev1.ResourceHealth{{ResourceID: corev1.ResourceID(text), Health: corev1.ResourceHealthStatus(text), Message: &text}}}}}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{text: text, corev1.LabelTopologyZone: text}}}
	return fleet.Input{View: tracker.Merge(slice, rule), Claims: []*resourceapi.ResourceClaim{claim}, Pods: []*corev1.Pod{pod}, Nodes: []*corev1.Node{n}, Drains: []*v1alpha1.DeviceDrain{drain}, Reactions: []*v1alpha1.DeviceReaction{reactionTo(text)}, Rolls: []*v1alpha1.DeviceRoll{rollOf(strings.ToValidUTF8(text[:min(len(text), 253)], ""))}, Notes: []string{text}}
}

// pagesOf are the addresses of all pages that show a text.
func pagesOf(text string) []string {
	v := func(pairs ...string) string {
		query := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			query.Set(pairs[i], pairs[i+1])
		}
		return query.Encode()
	}
	return []string{"/", "/?" + v("q", "state:"+text[:min(len(text), 500)]), "/?group=namespace", "/device?" + v("driver", text, "pool", text, "device", text), "/claim?" + v("namespace", text, "name", text),
		"/pod?" + v("namespace", text, "name", text), "/drains", "/drain?" + v("name", text), "/taints", "/capacity?by=driver", "/capacity?by=class", "/capacity?by=namespace", "/map.json"}
}

// markup are the tags of a page that a text could make, and invisible characters.
var tags = regexp.MustCompile(`(?i)<(script|img|b>|iframe|svg|style)[^>]*>`)

// TestHostileText: no text of the cluster becomes markup, code or an invisible character, in any
// page; long ones are cut.
func TestHostileText(t *testing.T) {
	harmless := map[string]int{}
	for i, text := range append([]string{"harmless"}, evil()...) {
		f, err := fleet.Build(t.Context(), hostile(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := console.NewGate(port)
		handler := newServer(t, f).Handler(g)
		user := enter(t, g, handler)
		for j, target := range pagesOf(text) {
			if len(target) > 4000 {
				continue // the gate refuses the address
			}
			w := answer(handler, "GET", target, user)
			body := w.Body.String()
			if w.Code != 200 {
				t.Fatalf("%.40q: %.80s: %d %.200s", text, target, w.Code, body)
			}
			name, _, _ := strings.Cut(target, "?")
			key := name + string(rune('0'+j))
			count := len(tags.FindAllString(body, -1))
			if i == 0 {
				harmless[key] = count
			} else if count != harmless[key] {
				t.Errorf("%.40q: %s: has %d tags, a harmless text has %d", text, key, count, harmless[key])
			}
			if strings.ContainsAny(body, "\u202e\u2028\x00\x1b") {
				t.Errorf("%.40q: %s: has an invisible character", text, name)
			}
			if strings.Contains(body, `href="javascript:`) || strings.Contains(body, " onerror=") && !strings.Contains(body, "&#34;&gt;") && name != "/map.json" {
				t.Errorf("%.40q: %s: a link or attribute has code", text, name)
			}
			if len(body) > 200_000 {
				t.Errorf("%.40q: %s: %d bytes", text, name, len(body))
			}
		}
	}
}

// TestMapData: what the script reads is JSON inside a script element that no text can leave.
func TestMapData(t *testing.T) {
	for _, text := range evil() {
		f, err := fleet.Build(t.Context(), hostile(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		g := console.NewGate(port)
		handler := newServer(t, f).Handler(g)
		body := answer(handler, "GET", "/", enter(t, g, handler)).Body.String()
		_, rest, _ := strings.Cut(body, `<script type="application/json" id="map-data">`)
		data, _, found := strings.Cut(rest, "</script>")
		var m struct {
			Names  []string
			Groups []struct{ Rows []struct{ C string } }
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || !found || len(m.Groups) != 1 || len(m.Groups[0].Rows) != 1 || len(m.Groups[0].Rows[0].C) != 1 {
			t.Errorf("%.40q: %v: %.200s", text, err, data)
		}
	}
}

// TestPartialView: with claims that the user is not allowed to read, pages say partial view, and
// no device is free.
func TestPartialView(t *testing.T) {
	in := hostile("a")
	in.Claims, in.Partial = nil, true
	f, err := fleet.Build(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	handler := newServer(t, f).Handler(g)
	user := enter(t, g, handler)
	for target, want := range map[string][]string{"/": {"Partial view", `class="tag">partial view`, "unknown", `<b data-count="free">0</b>`}, "/capacity?by=driver": {"Partial view", "partial view"},
		"/device?driver=a&pool=a&device=a": {"Partial view", "Unknown: no claim that you may read has it", "partial view: claims that you are not allowed"}} {
		body := html.UnescapeString(answer(handler, "GET", target, user).Body.String())
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: does not say %q", target, text)
			}
		}
		if strings.Contains(body, `s-free m-none`) {
			t.Errorf("%s: a device is free", target)
		}
	}
}

// wantPrediction fails if the page of a device does not say what a drain evicts.
func wantPrediction(t *testing.T, name, text string) {
	t.Helper()
	if !strings.Contains(text, "evict no pods") && !strings.Contains(text, "evict 1.") {
		t.Errorf("%s has no prediction:\n%s", name, text)
	}
}

// TestExport: an export has a file for each page, no address of a server, and every link leads to a
// file.
func TestExport(t *testing.T) {
	f, err := fleet.Build(t.Context(), hostile(`"><img src=x>`), nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "export")
	written, err := newServer(t, f).Export(t.Context(), console.ExportOptions{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(names) != written.Files || written.Left != 0 {
		t.Fatalf("%d files, %+v: %v", len(names), written, err)
	}
	links := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	devices, claims := 0, 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "device-") {
			devices++
			wantPrediction(t, name, string(text))
		}
		if base := filepath.Base(name); strings.HasPrefix(base, "claim-") || strings.HasPrefix(base, "pod-") {
			claims++
		}
		if filepath.Ext(name) != ".html" {
			continue
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			if target := link[1]; target != "" && target != "#main" {
				if _, err := os.Stat(filepath.Join(folder, target)); err != nil {
					t.Errorf("%s links to %q", filepath.Base(name), target)
				}
			}
		}
		if strings.Contains(string(text), "token") {
			t.Errorf("%s has a token", name)
		}
	}
	if devices != 1 || claims != 2 {
		t.Errorf("%d devices, %d claims and pods, want 1 and 2", devices, claims)
	}
	if _, err := newServer(t, f).Export(t.Context(), console.ExportOptions{Folder: folder}); err == nil {
		t.Error("a folder with files is written to")
	}
}
