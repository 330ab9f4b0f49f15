package guard_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/chart/console"
)

// A user of a console sends its forms.
type user struct {
	t      *testing.T
	base   string
	client *http.Client
}

// runConsole runs a console that writes, and opens it.
func runConsole(t *testing.T) *user {
	t.Helper()
	first := console.Run(t, cluster.Kubeconfig(), "--allow-writes")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, client: &http.Client{Jar: jar}}
	u.base, _, _ = strings.Cut(first, "/?")
	u.get(strings.TrimPrefix(first, u.base))
	return u
}

func (u *user) do(r *http.Request) string {
	u.t.Helper()
	answer, err := u.client.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		u.t.Fatalf("%s: %s %v %s", r.URL, answer.Status, err, text)
	}
	return html.UnescapeString(string(text))
}

func (u *user) get(path string) string {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, u.base+path, nil)
	if err != nil {
		u.t.Fatal(err)
	}
	return u.do(r)
}

// send sends a form with the fields of another page that are named, and returns the page that follows.
func (u *user) send(path, page string, fields []string, pairs ...string) string {
	u.t.Helper()
	form := url.Values{}
	for _, name := range append(fields, "form") {
		found := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page)
		if found == nil {
			u.t.Fatalf("no field %s in:\n%s", name, page)
		}
		form.Set(name, found[1])
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, u.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", u.base)
	return u.do(r)
}

func (u *user) wants(page string, texts ...string) {
	u.t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			u.t.Fatalf("no %q in:\n%s", text, page)
		}
	}
}

// TestConsoleWrites: on a page, the guard refuses a taint above the thresholds, with the
// acknowledgement that lets it pass; what has grown since the preview is not written.
func TestConsoleWrites(t *testing.T) {
	_, c, _ := guarded(t, lowThresholds)
	holders(t, c)
	rules := rulesOf(t, "system:admin")[0]
	eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
		_, err := rules.Create(ctx, ruleOf(cluster.DeviceTaintRules(), "all", rack, "NoExecute", ""), notStored)
		return err != nil && strings.Contains(err.Error(), "4 pods"), nil
	})
	u := runConsole(t)
	taint := []string{"verb", "taint", "target", rack, "key", "example.com/console", "effect", "NoExecute", "reason", "the rack"}
	preview := u.send("/preview", u.get("/taints"), nil, taint...)
	u.wants(preview, "Refused: ", "4 pods", "value=\"pods<=4,namespaces<=2\"", "Preview with the acknowledgement")
	if strings.Contains(preview, `id="confirm"`) {
		t.Error("what the guard refuses can be confirmed")
	}
	again := u.send("/preview", preview, []string{"verb", "target", "key", "effect", "reason"}, "acknowledge", "pods<=9,namespaces<=2")
	u.wants(again, `id="confirm"`, "--acknowledge 'pods<=9,namespaces<=2'", "evicts radius-0/holder-0")
	hold(t, c, "radius-0", "holder-4", "gpu-e")
	eventually(t, "the console has seen the fifth pod", func(context.Context) (bool, error) {
		return strings.Contains(u.get("/device?driver="+driver+"&pool=rack&device=gpu-e"), "evicts radius-0/holder-4"), nil
	})
	grown := u.send("/confirm", again, []string{"id", "seen"})
	u.wants(grown, "Not written", "it affects 5 pods, and the preview showed 4")
	if list, err := rules.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Fatalf("%v: %d rules", err, len(list.Items))
	}
	done := u.send("/confirm", grown, []string{"id", "seen"})
	u.wants(done, "Done: devicetaintrule/taint-rack-", "created: "+rack+" example.com/console:NoExecute")
	list, err := rules.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %d rules", err, len(list.Items))
	}
	notes := list.Items[0].GetAnnotations()
	if notes[acknowledged] != "pods<=9,namespaces<=2" || notes["dra-steward.io/reason"] != "the rack" || notes["dra-steward.io/owner"] == "" {
		t.Errorf("annotations %q", notes)
	}
	preview = u.send("/preview", u.get("/taints"), nil, "verb", "untaint", "rule", list.Items[0].GetName())
	u.wants(u.send("/confirm", preview, []string{"id", "seen"}), "deleted")
}
