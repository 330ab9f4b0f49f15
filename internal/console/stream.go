package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
)

const (
	// beat is how often a stream is written to at least, so that a lost page is noticed.
	beat = 15 * time.Second
	// writeTime bounds one write of a stream.
	writeTime = 10 * time.Second
	// maxCells is how many cells an event has; after more changes the page reads the map again.
	maxCells = 20_000
)

// A change is the event "cells": the devices whose states differ, by their index, and the indexes of the others of which
// claims, taints or drains differ.
type change struct {
	Revision uint64       `json:"revision"`
	Cells    []cell       `json:"cells"`
	Others   []int        `json:"others"`
	Totals   fleet.Totals `json:"totals"`
}

// A cell is the index of a device and its code.
type cell struct {
	Index int
	Code  byte
}

// MarshalJSON writes [index, "code"].
func (c cell) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%q]", c.Index, string(rune(c.Code))), nil
}

// events tells a page what changes until it is closed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > int64(s.options.Streams) {
		s.streams.Add(-1)
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("busy: %d pages listen for changes already; close some", s.options.Streams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	stream := &stream{w: w, control: http.NewResponseController(w)}
	now := s.shown.Load()
	stream.sent = stream.begin(r, now)
	if err := stream.send(now, true); err != nil {
		return
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			if stream.write(": \n\n") != nil {
				return
			}
			continue
		case <-now.changed:
		}
		now = s.shown.Load()
		if stream.send(now, false) != nil { // the page is gone
			return
		}
	}
}

// A stream is an open page.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    *shown
	stale   string
}

// begin returns what the page shows: what it says, if that is still known.
func (t *stream) begin(r *http.Request, now *shown) *shown {
	if r.URL.Query().Get("revision") == strconv.FormatUint(now.revision, 10) && r.Header.Get("Last-Event-ID") == "" {
		return now
	}
	return nil
}

// send tells the page how what is shown differs from what was sent.
func (t *stream) send(now *shown, first bool) error {
	before := t.sent
	t.sent = now
	if now.stale != t.stale || first {
		t.stale = now.stale
		if err := t.event(now, "stale", map[string]string{"reason": now.stale, "since": now.since.UTC().Format(time.RFC3339)}); err != nil {
			return err
		}
	}
	if before == nil || before.fleet.Layout != now.fleet.Layout || len(before.fleet.Codes) != len(now.fleet.Codes) {
		return t.event(now, "layout", map[string]uint64{"revision": now.revision})
	}
	if before.fleet == now.fleet {
		return nil
	}
	c := change{Revision: now.revision, Cells: []cell{}, Others: []int{}, Totals: now.fleet.Totals}
	for i, code := range now.fleet.Codes {
		if before.fleet.Codes[i] != code {
			c.Cells = append(c.Cells, cell{i, code})
		} else if now.fleet.Differs(before.fleet, i) {
			c.Others = append(c.Others, i)
		}
	}
	if len(c.Cells)+len(c.Others) > maxCells {
		return t.event(now, "layout", map[string]uint64{"revision": now.revision})
	}
	return t.event(now, "cells", c)
}

func (t *stream) event(now *shown, name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return t.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", now.revision, name, text))
}

func (t *stream) write(text string) error {
	if err := t.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := t.w.Write([]byte(text)); err != nil {
		return err
	}
	return t.control.Flush()
}
