package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Gate lets only the user who has the first address reach the pages: others who can connect to
// loopback, such as other users of the machine and pages of other sites in the same browser,
// cannot.
type Gate struct {
	port           int
	token, session string
	cookie         string
	hosts          []string
	// form is the token of the forms of this session; it is empty if nothing may be written.
	form string
}

// Bounds of a request.
const (
	maxHeader = 16 << 10
	maxURL    = 4 << 10
	// tokenBytes are the random bytes of the token and of the cookie.
	tokenBytes = 32
	tokenName  = "token"
)

// NewGate returns the gate of a server that listens on a port of loopback.
func NewGate(port int) *Gate {
	g := &Gate{port: port, token: secret(), session: secret(), cookie: "dra-steward-console-" + strconv.Itoa(port)}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		g.hosts = append(g.hosts, host+":"+strconv.Itoa(port))
	}
	return g
}

// AllowWrites makes the gate let through the forms of its own pages.
func (g *Gate) AllowWrites() { g.form = secret() }

func secret() string {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// URL is the first address. It has the token.
func (g *Gate) URL(host string) string {
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(g.port)), Path: "/", RawQuery: tokenName + "=" + g.token}).String()
}

// Protect lets through what the user of the first address asks for.
func (g *Gate) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if g.form != "" {
			// A form has the Origin null if the page sends no referrer to its own server.
			w.Header().Set("Referrer-Policy", "same-origin")
		}
		if status, reason := g.refuse(r); reason != "" {
			http.Error(w, reason, status)
			return
		}
		if token := r.URL.Query().Get(tokenName); token != "" && r.Method != http.MethodPost {
			g.enter(w, r, token)
			return
		}
		cookie, err := r.Cookie(g.cookie)
		if err != nil || !same(cookie.Value, g.session) {
			http.Error(w, "forbidden: open the address that dra-steward console has printed", http.StatusForbidden)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			http.Error(w, "forbidden: a page of another site asks", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPost {
			if status, reason := g.refuseForm(w, r); reason != "" {
				http.Error(w, reason, status)
				return
			}
		} else {
			r.Body = http.MaxBytesReader(w, r.Body, 0)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), formKey{}, g.form)))
	})
}

// refuse returns why a request is refused from any user.
func (g *Gate) refuse(r *http.Request) (status int, reason string) {
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	switch ip := net.ParseIP(peer); {
	case err != nil || ip == nil || !ip.IsLoopback():
		return http.StatusForbidden, "forbidden: only this machine is served"
	case r.Method == http.MethodPost && g.form == "":
		return http.StatusMethodNotAllowed, "method not allowed: the console only reads; --allow-writes allows changes"
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "method not allowed: the console answers GET, HEAD and the POST of its forms"
	case len(r.RequestURI) > maxURL:
		return http.StatusRequestURITooLong, fmt.Sprintf("the address must have at most %d bytes", maxURL)
	case !slices.Contains(g.hosts, r.Host):
		return http.StatusMisdirectedRequest, "the host must be 127.0.0.1, localhost or [::1] with the port of the console"
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return http.StatusForbidden, "forbidden: a page of another origin asks"
	}
	return 0, ""
}

// enter turns the token into a cookie, and sends the browser to an address without it.
func (g *Gate) enter(w http.ResponseWriter, r *http.Request, token string) {
	if !same(token, g.token) {
		http.Error(w, "forbidden: wrong token: the console was started again; open the address that it has printed last", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	query := r.URL.Query()
	query.Del(tokenName)
	path := "/" + strings.TrimLeft(r.URL.Path, "/\\") // a path of two slashes is another host
	http.Redirect(w, r, (&url.URL{Path: path, RawQuery: query.Encode()}).String(), http.StatusSeeOther)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// policy is the Content-Security-Policy: only files of the console, no inline code or style, and no
// text that becomes markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Listen listens on an address of loopback; port 0 is any that is free.
func Listen(address string, port int) (net.Listener, error) {
	if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--address %q: must be 127.0.0.1 or ::1: the console serves this machine only; forward the port, for example with ssh -L", address)
	}
	if port < 0 || port > 65535 {
		return nil, fmt.Errorf("--port %d: must be from 0 to 65535", port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("--port %d: %w", port, err)
	}
	return listener, nil
}

// PortOf is the port of a listener.
func PortOf(listener net.Listener) (int, error) {
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("the console listens on TCP only")
	}
	return address.Port, nil
}

// Handler is what a server on loopback serves: the pages behind the gate.
func (s *Server) Handler(g *Gate) http.Handler { return g.Protect(s.routes()) }

// HTTP returns a server of a handler with bounds on what one connection costs.
func HTTP(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader}
}
