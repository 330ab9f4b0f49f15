package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// TestForms: a form is read only if a page of this session sends it, and if it is small.
func TestForms(t *testing.T) {
	w := allowWrites(t, small(1))
	const form = "application/x-www-form-urlencoded"
	good := "verb=none&form=" + w.token
	origin, kind := header("Origin", "http://127.0.0.1:8099"), header("Content-Type", form)
	none := func(*http.Request) {}
	for name, tt := range map[string]struct {
		target, body       string
		user, origin, kind func(*http.Request)
		want               int
	}{
		"its own form":              {"/preview", good, w.user, origin, kind, 422},
		"with a charset":            {"/preview", good, w.user, origin, header("Content-Type", form+"; charset=utf-8"), 422},
		"no cookie":                 {"/preview", good, none, origin, kind, 403},
		"no origin":                 {"/preview", good, w.user, none, kind, 403},
		"the origin null":           {"/preview", good, w.user, header("Origin", "null"), kind, 403},
		"another origin":            {"/preview", good, w.user, header("Origin", "https://evil.example.com"), kind, 403},
		"another port":              {"/preview", good, w.user, header("Origin", "http://127.0.0.1:8100"), kind, 403},
		"another name of loopback":  {"/preview", good, w.user, header("Origin", "http://localhost:8099"), kind, 403},
		"another site":              {"/preview", good, w.user, func(r *http.Request) { origin(r); header("Sec-Fetch-Site", "cross-site")(r) }, kind, 403},
		"no token":                  {"/preview", "verb=none", w.user, origin, kind, 403},
		"a wrong token":             {"/preview", "verb=none&form=a", w.user, origin, kind, 403},
		"two tokens":                {"/preview", good + "&form=a", w.user, origin, kind, 400},
		"a token in the address":    {"/preview?form=" + w.token, "verb=none", w.user, origin, kind, 400},
		"the first token":           {"/preview?token=a", good, w.user, origin, kind, 400},
		"JSON":                      {"/preview", `{"verb":"none"}`, w.user, origin, header("Content-Type", "application/json"), 415},
		"plain text":                {"/preview", good, w.user, origin, header("Content-Type", "text/plain"), 415},
		"no type":                   {"/preview", good, w.user, origin, none, 415},
		"a long body":               {"/preview", good + "&a=" + strings.Repeat("a", 20_000), w.user, origin, kind, 413},
		"a long field":              {"/preview", good + "&a=" + strings.Repeat("a", 3_000), w.user, origin, kind, 400},
		"many fields":               {"/preview", good + many(40), w.user, origin, kind, 400},
		"a field twice":             {"/preview", good + "&a=1&a=2", w.user, origin, kind, 400},
		"no text":                   {"/preview", good + "&a=%ff", w.user, origin, kind, 400},
		"broken":                    {"/preview", good + "&a=%zz", w.user, origin, kind, 400},
		"a page that only reads":    {"/drains", good, w.user, origin, kind, 405},
		"confirm without a preview": {"/confirm", good, w.user, origin, kind, 404},
	} {
		if rec := postForm(w.handler, tt.target, tt.body, tt.user, tt.origin, tt.kind); rec.Code != tt.want {
			t.Errorf("%s: %d, want %d: %.200s", name, rec.Code, tt.want, rec.Body)
		}
	}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
		if rec := answer(w.handler, method, "/preview", w.user); rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, rec.Code)
		}
	}
	for _, page := range []string{"/preview", "/confirm"} {
		if rec := answer(w.handler, "GET", page, w.user); rec.Code != http.StatusMethodNotAllowed && rec.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d", page, rec.Code)
		}
	}
	if got := w.writer.all(); len(got) > 0 {
		t.Errorf("wrote %q", got)
	}
}

func many(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("&a%d=", i)
	}
	return text
}

// TestReadOnly: without writes no page has a form that is posted, and no form is accepted.
func TestReadOnly(t *testing.T) {
	f, err := fleet.Build(t.Context(), small(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	handler := newServer(t, f).Handler(g)
	user := enter(t, g, handler)
	for _, page := range []string{"/", "/drains", "/taints", "/device?driver=gpu.example.com&pool=node-1&device=gpu-0"} {
		rec := answer(handler, "GET", page, user)
		if body := rec.Body.String(); strings.Contains(body, `method="post"`) || rec.Code != http.StatusOK || rec.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d %q\n%s", page, rec.Code, rec.Header(), body)
		}
	}
	for _, page := range []string{"/preview", "/confirm", "/"} {
		if rec := postForm(handler, page, "form=", user, header("Origin", "http://127.0.0.1:8099"), header("Content-Type", "application/x-www-form-urlencoded")); rec.Code != http.StatusMethodNotAllowed || !strings.Contains(rec.Body.String(), "--allow-writes") {
			t.Errorf("POST %s: %d %s", page, rec.Code, rec.Body)
		}
	}
	if rec := answer(handler, "GET", "/change?id=a", user); rec.Code != http.StatusNotFound {
		t.Errorf("the page of a preview: %d", rec.Code)
	}
}
