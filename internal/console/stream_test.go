package console_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// listening is a console that listens, and a client with its cookie.
func listening(t *testing.T, options console.Options) (s *console.Server, address string, client *http.Client) {
	t.Helper()
	if options.Now == nil {
		options.Now = time.Now
	}
	s, err := console.New(options)
	if err != nil {
		t.Fatal(err)
	}
	l, err := console.Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := console.PortOf(l)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(number)
	server := console.HTTP(s.Handler(g))
	go server.Serve(l) //nolint:errcheck // it ends with the listener
	t.Cleanup(func() { server.Close() })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client = &http.Client{Jar: jar}
	first, err := client.Get(g.URL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	return s, "http://" + l.Addr().String(), client
}

// events reads the events of a stream.
func events(t *testing.T, client *http.Client, address string) (next func() string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Body.Close() })
	lines := bufio.NewScanner(w.Body)
	return func() string {
		event := ""
		for lines.Scan() {
			if lines.Text() == "" && event != "" {
				return event
			}
			event += strings.TrimSpace(lines.Text()) + " "
		}
		return event
	}, w.StatusCode
}

func fleetOf(t *testing.T, in fleet.Input, before *fleet.Fleet) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Build(t.Context(), in, before)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEvents: a page hears which cells have changed, and when devices come.
func TestEvents(t *testing.T) {
	s, address, client := listening(t, console.Options{})
	first := fleetOf(t, hostile("a"), nil)
	s.Show(first)
	next, _ := events(t, client, address)
	for _, want := range []string{"event: stale", "event: layout"} {
		if got := next(); !strings.Contains(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	in := hostile("a")
	in.Drains, in.Claims = nil, nil
	s.Show(fleetOf(t, in, first))
	if got := next(); !strings.Contains(got, `event: cells`) || !strings.Contains(got, `"cells":[[0,"G"]]`) || !strings.Contains(got, `"Free":1`) {
		t.Errorf("got %q", got)
	}
}

// TestEventsOfOthers: a page hears of a device whose claim is another, though its state is the same.
func TestEventsOfOthers(t *testing.T) {
	s, address, client := listening(t, console.Options{})
	first := fleetOf(t, hostile("a"), nil)
	s.Show(first)
	next, _ := events(t, client, address)
	_, _ = next(), next()
	in := hostile("a")
	in.Claims[0].Namespace = "other"
	s.Show(fleetOf(t, in, first))
	if got := next(); !strings.Contains(got, `"cells":[],"others":[0]`) {
		t.Errorf("got %q", got)
	}
}

// TestStale: what is not current stays so, since then, until the console says that it is; another fleet
// does not say it.
func TestStale(t *testing.T) {
	var hours atomic.Int64
	s, address, client := listening(t, console.Options{Now: func() time.Time { return time.Unix(0, 0).Add(time.Duration(hours.Add(1)) * time.Hour) }})
	s.Show(fleetOf(t, hostile("a"), nil))
	next, _ := events(t, client, address)
	_, _ = next(), next()
	since := regexp.MustCompile(`"since":"[^"]*"`)
	s.Stale("the API server is away")
	began := next()
	if !strings.Contains(began, `event: stale`) || !strings.Contains(began, "the API server is away") || since.FindString(began) == "" {
		t.Errorf("got %q", began)
	}
	s.Show(fleetOf(t, hostile("b"), nil))
	if got := next(); !strings.Contains(got, "event: layout") {
		t.Errorf("got %q", got)
	}
	s.Stale("the API server is away for nodes")
	if got := next(); !strings.Contains(got, `away for nodes`) || since.FindString(got) != since.FindString(began) {
		t.Errorf("got %q after %q", got, began)
	}
	s.Stale("")
	if got := next(); !strings.Contains(got, `"reason":""`) {
		t.Errorf("got %q", got)
	}
}

// TestManyStreams: more pages than the bound are refused, and a page that is closed makes room.
func TestManyStreams(t *testing.T) {
	_, address, client := listening(t, console.Options{Streams: 2})
	if _, status := events(t, client, address); status != 200 {
		t.Fatal(status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := client.Do(r)
	if err != nil || second.StatusCode != 200 {
		t.Fatal(err)
	}
	if _, status := events(t, client, address); status != http.StatusServiceUnavailable {
		t.Errorf("a third stream: %d", status)
	}
	cancel()
	second.Body.Close()
	for begin := time.Now(); ; {
		_, status := events(t, client, address)
		if status == 200 {
			break
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("a stream that was closed makes no room: %d", status)
		}
	}
}
