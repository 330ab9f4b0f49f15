package console_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

const port = 8099

// answer asks a handler as a browser on this machine does.
func answer(handler http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host, r.RemoteAddr = fmt.Sprint("127.0.0.1:", port), "127.0.0.1:40000"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

// enter follows the first address and returns the cookie as a change of requests.
func enter(t *testing.T, g *console.Gate, handler http.Handler) func(*http.Request) {
	t.Helper()
	w := answer(handler, "GET", strings.TrimPrefix(g.URL("127.0.0.1"), fmt.Sprint("http://127.0.0.1:", port)))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || len(cookies) != 1 {
		t.Fatalf("the first address answers %d, location %q, %d cookies", w.Code, w.Header().Get("Location"), len(cookies))
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || strings.Contains(g.URL("127.0.0.1"), c.Value) {
		t.Errorf("cookie %+v", c)
	}
	return func(r *http.Request) { r.AddCookie(cookies[0]) }
}

func newServer(t *testing.T, f *fleet.Fleet) *console.Server {
	t.Helper()
	s, err := console.New(console.Options{Cluster: "test", Now: func() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		s.Show(f)
	}
	return s
}

// TestGate: only the browser that has followed the first address is served, and only for its own
// pages.
func TestGate(t *testing.T) {
	g := console.NewGate(port)
	handler := newServer(t, nil).Handler(g)
	user := enter(t, g, handler)
	for name, tt := range map[string]struct {
		method, target string
		change         func(*http.Request)
		want           int
	}{
		"a page":                            {"GET", "/", user, 200},
		"localhost":                         {"GET", "/", func(r *http.Request) { user(r); r.Host = fmt.Sprint("localhost:", port) }, 200},
		"its own page asks":                 {"GET", "/map.json", func(r *http.Request) { user(r); header("Origin", fmt.Sprint("http://127.0.0.1:", port))(r) }, 200},
		"no cookie":                         {"GET", "/", func(*http.Request) {}, 403},
		"no cookie for a script":            {"GET", "/static/console.js", func(*http.Request) {}, 403},
		"a wrong cookie":                    {"GET", "/", header("Cookie", fmt.Sprintf("dra-steward-console-%d=a", port)), 403},
		"a wrong token":                     {"GET", "/?token=a", user, 403},
		"another host (DNS rebinding)":      {"GET", "/", func(r *http.Request) { user(r); r.Host = fmt.Sprint("evil.example.com:", port) }, 421},
		"another host with the token":       {"GET", "/?token=a", func(r *http.Request) { r.Host = "evil.example.com" }, 421},
		"another port":                      {"GET", "/", func(r *http.Request) { user(r); r.Host = "127.0.0.1:1" }, 421},
		"a page of another origin":          {"GET", "/map.json", func(r *http.Request) { user(r); header("Origin", "https://evil.example.com")(r) }, 403},
		"a page without an origin":          {"GET", "/map.json", func(r *http.Request) { user(r); header("Origin", "null")(r) }, 403},
		"a page of another port":            {"GET", "/map.json", func(r *http.Request) { user(r); header("Sec-Fetch-Site", "same-site")(r) }, 403},
		"a page of another site":            {"GET", "/map.json", func(r *http.Request) { user(r); header("Sec-Fetch-Site", "cross-site")(r) }, 403},
		"another machine":                   {"GET", "/", func(r *http.Request) { user(r); r.RemoteAddr = "192.0.2.1:40000" }, 403},
		"a write":                           {"POST", "/", user, 405},
		"a long address":                    {"GET", "/?q=" + strings.Repeat("a", 5000), user, 414},
		"a page that does not exist":        {"GET", "/secrets", user, 404},
		"a file that is not to be served":   {"GET", "/static/../templates/page.html", user, 307},
		"a device that does not exist":      {"GET", "/device?driver=a&pool=b&device=c", user, 404},
		"a claim that does not exist":       {"GET", "/claim?namespace=a&name=b", user, 404},
		"capacities by what does not exist": {"GET", "/capacity?by=<script>", user, 400},
	} {
		w := answer(handler, tt.method, tt.target, tt.change)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d: %.100s", name, w.Code, tt.want, w.Body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy %q", name, policy)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", name, w.Header())
		}
	}
}

// TestRedirect: the address after the first one is on the console, whatever the path is.
func TestRedirect(t *testing.T) {
	g := console.NewGate(port)
	handler := newServer(t, nil).Handler(g)
	_, token, _ := strings.Cut(g.URL("127.0.0.1"), "?")
	for target, want := range map[string]string{"/drains?q=a&" + token: "/drains?q=a", "//evil.example.com/?" + token: "/evil.example.com/", "/\\evil.example.com?" + token: "/evil.example.com"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
		path, query, _ := strings.Cut(target, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		r.Host, r.RemoteAddr = fmt.Sprint("127.0.0.1:", port), "[::1]:40000"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want || w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d to %q, want %q", path, w.Code, got, want)
		}
	}
}

// TestListen: the console listens on loopback only.
func TestListen(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "::", "", "192.0.2.1", "localhost", "example.com"} {
		if l, err := console.Listen(address, 0); err == nil {
			l.Close()
			t.Errorf("it listens on %q", address)
		}
	}
	if _, err := console.Listen("127.0.0.1", 70000); err == nil {
		t.Error("it listens on port 70000")
	}
	l, err := console.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := console.PortOf(l); err != nil || got == 0 {
		t.Errorf("port %d: %v", got, err)
	}
}

// TestSlowHeaders: a connection that sends its request slowly, or without an end, is closed.
func TestSlowHeaders(t *testing.T) {
	server := console.HTTP(http.NotFoundHandler())
	if server.ReadHeaderTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 || server.MaxHeaderBytes == 0 {
		t.Fatalf("a bound is missing: %+v", server)
	}
	l, err := console.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l) //nolint:errcheck // it ends with the listener
	defer server.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\nA: %s\r\n\r\n", strings.Repeat("a", 1<<20)) //nolint:errcheck // the server closes it
	text, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(text), "HTTP/1.1 431") {
		t.Errorf("headers of 1 MiB: %.60q", text)
	}
}
