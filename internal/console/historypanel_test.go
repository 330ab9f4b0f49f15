package console_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/history"
)

// serveHistory returns the page of the device of hostile, with a record.
func serveHistory(t *testing.T, text string, record *history.Record, err error) string {
	t.Helper()
	f, built := fleet.Build(t.Context(), hostile(text), nil)
	if built != nil {
		t.Fatal(built)
	}
	s, made := console.New(console.Options{Cluster: "a", Now: clock, History: func(_ context.Context, device v1alpha1.DeviceName) (*history.Record, error) {
		if device.Device != text {
			t.Errorf("asked for %s", device)
		}
		return record, err
	}})
	if made != nil {
		t.Fatal(made)
	}
	s.Show(f)
	g := console.NewGate(port)
	handler := s.Handler(g)
	user := enter(t, g, handler)
	return answer(handler, "GET", "/device?"+url.Values{"driver": {text}, "pool": {text}, "device": {text}}.Encode(), user).Body.String()
}

// TestHistoryOfDevice: the page of a device shows its history, the newest event first, escaped and cut, or why
// there is none.
func TestHistoryOfDevice(t *testing.T) {
	at := clock().Add(-time.Hour)
	tags := -1
	for _, text := range append([]string{"harmless"}, evil()...) {
		if len(text) > 1000 {
			continue // records have no such texts
		}
		record := &history.Record{CutHolders: 2, Entries: []history.Entry{{Kind: history.Drain, Name: text, By: text, Reason: text, Ticket: text, Begin: at, Steps: []history.Step{{Time: at, State: text, Message: text}}}},
			Holders: []history.Holder{{Namespace: text, Claim: text, Pods: []string{text}, Owner: text, Since: at.Add(-time.Hour), Until: at.Add(time.Minute)}}}
		body := serveHistory(t, text, record, nil)
		if tags < 0 {
			tags = strings.Count(body, "<")
			released, created, held := strings.Index(body, "released by harmless/harmless (pod harmless)"), strings.Index(body, "drain harmless created"), strings.Index(body, "held by harmless/harmless")
			if released < 0 || created < released || held < created || !strings.Contains(body, "2 older holders were left out") {
				t.Errorf("%d, %d, %d in %s", released, created, held, body)
			}
		}
		if got := strings.Count(body, "<"); got != tags || strings.ContainsAny(body, "\u202e\u2028\x00\x1b") {
			t.Errorf("%.40q: %d tags, want %d", text, got, tags)
		}
	}
	if body := serveHistory(t, "a", nil, nil); !strings.Contains(body, "No taint, drain or reaction is recorded.") {
		t.Error(body)
	}
	if body := serveHistory(t, "a", nil, errors.New("broken")); !strings.Contains(body, "The history cannot be read: broken") {
		t.Error(body)
	}
}
