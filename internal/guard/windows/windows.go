// Package windows computes when windows of the week are open, and reads them from text.
package windows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A State is whether one of several windows is open.
type State struct {
	// Open is also true if there are no windows.
	Open bool
	// Until is when Open changes; zero if it does not change within a week.
	Until time.Time
}

// A span is a time in which a window is open, without its end.
type span struct{ from, to time.Time }

// horizonDays is how many days the windows are looked at: one week, and the day on which it ends.
const horizonDays = 8

// At is the state of windows at a time. An error names the first window that cannot be read; no
// window is open then.
func At(all []v1alpha1.Window, now time.Time) (State, error) {
	if len(all) == 0 {
		return State{Open: true}, nil
	}
	spans, err := sorted(all, now)
	if err != nil {
		return State{}, err
	}
	var s State
	for _, one := range spans {
		switch {
		case !one.to.After(now):
		case one.from.After(now) && !s.Open:
			return State{Until: one.from}, nil
		case !s.Open:
			s = State{Open: true, Until: one.to}
		case one.from.After(s.Until):
			return s, nil
		case one.to.After(s.Until):
			s.Until = one.to
		}
	}
	if s.Until.After(now.AddDate(0, 0, horizonDays-1)) {
		s.Until = time.Time{}
	}
	return s, nil
}

// Openings are when windows open within a week, the first one first: none if there are no windows, or one of
// them cannot be read.
func Openings(all []v1alpha1.Window, now time.Time) (openings []time.Time) {
	spans, err := sorted(all, now)
	if err != nil {
		return nil
	}
	var open time.Time // until when
	for _, one := range spans {
		if one.from.After(open) && one.from.After(now) && !one.from.After(now.AddDate(0, 0, horizonDays-1)) {
			openings = append(openings, one.from)
		}
		if one.to.After(open) {
			open = one.to
		}
	}
	return openings
}

// Begins are when something that is written now begins within a week: now, unless the windows are closed, and whenever
// one of them opens.
func Begins(all []v1alpha1.Window, now time.Time) []time.Time {
	openings := Openings(all, now)
	if state, err := At(all, now); err == nil && !state.Open && len(openings) > 0 {
		return openings
	}
	return slices.Insert(openings, 0, now)
}

// sorted are the times around now in which windows are open. An error names the first window that cannot be read.
func sorted(all []v1alpha1.Window, now time.Time) (spans []span, _ error) {
	for i, w := range all {
		r, err := read(w)
		if err != nil {
			return nil, fmt.Errorf("windows[%d].%w", i, err)
		}
		spans = append(spans, r.spans(now)...)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	return spans, nil
}

// A readable is a window that was read.
type readable struct {
	days     []time.Weekday
	from, to int // minutes of the day
	zone     *time.Location
}

// read reads a window. An error begins with the field that is wrong.
func read(w v1alpha1.Window) (r readable, _ error) {
	for i, day := range w.Days {
		at := slices.Index(Days(), day)
		if at < 0 {
			return r, fmt.Errorf("days[%d]: %q: must be a day in full, such as Monday", i, day)
		}
		r.days = append(r.days, time.Weekday(at))
	}
	for _, edge := range [...]struct {
		field, text string
		into        *int
	}{{"from", w.From, &r.from}, {"to", w.To, &r.to}} {
		minute, err := Minute(edge.text)
		if err != nil {
			return r, fmt.Errorf("%s: %q: %w", edge.field, edge.text, err)
		}
		*edge.into = minute
	}
	zone, err := Zone(w.TimeZone)
	if err != nil {
		return r, fmt.Errorf("timeZone: %q: %w", w.TimeZone, err)
	}
	r.zone = zone
	return r, nil
}

// Minute is the minute of the day that HH:MM names.
func Minute(text string) (int, error) {
	at, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, errors.New("must be a time of day from 00:00 to 23:59")
	}
	return at.Hour()*60 + at.Minute(), nil
}

// Zone is a time zone by its name; an empty name is UTC. It needs a database of time zones, which
// the program contains.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errors.New("must be the name of a time zone of the IANA, such as Europe/Berlin")
	}
	return zone, nil
}

// spans are the times around now in which a window is open. Where the clocks change, Go reads a
// time of day that does not exist, or exists twice, in one of the two offsets.
func (r readable) spans(now time.Time) (spans []span) {
	year, month, day := now.In(r.zone).Date()
	for i := -2; i <= horizonDays; i++ {
		date := time.Date(year, month, day+i, 12, 0, 0, 0, time.UTC)
		if len(r.days) > 0 && !slices.Contains(r.days, date.Weekday()) {
			continue
		}
		last := day + i
		if r.to <= r.from {
			last++
		}
		one := span{time.Date(year, month, day+i, 0, r.from, 0, 0, r.zone), time.Date(year, month, last, 0, r.to, 0, 0, r.zone)}
		if one.to.After(one.from) {
			spans = append(spans, one)
		}
	}
	return spans
}

// Days are the days of the week in the order of [time.Weekday].
func Days() []v1alpha1.Weekday {
	return []v1alpha1.Weekday{v1alpha1.Sunday, v1alpha1.Monday, v1alpha1.Tuesday, v1alpha1.Wednesday, v1alpha1.Thursday, v1alpha1.Friday, v1alpha1.Saturday}
}

// Form is what [Parse] reads.
const Form = "[DAYS ]HH:MM-HH:MM[ ZONE]"

// Parse reads a window from text, such as "Mon-Fri 22:00-06:00 Europe/Berlin". Days are separated
// by commas, and can be ranges.
func Parse(text string) (w v1alpha1.Window, err error) {
	parts := strings.Fields(text)
	if len(parts) > 0 && !strings.Contains(parts[0], ":") {
		if w.Days, err = parseDays(parts[0]); err != nil {
			return v1alpha1.Window{}, err
		}
		parts = parts[1:]
	}
	if len(parts) == 0 || len(parts) > 2 {
		return v1alpha1.Window{}, fmt.Errorf("%q: must be %s, such as \"Sat,Sun 22:00-06:00 Europe/Berlin\"", text, Form)
	}
	w.From, w.To, _ = strings.Cut(parts[0], "-")
	if len(parts) == 2 {
		w.TimeZone = parts[1]
	}
	if _, err := read(w); err != nil {
		return v1alpha1.Window{}, fmt.Errorf("%q: must be %s: %w", text, Form, err)
	}
	return w, nil
}

func parseDays(text string) (days []v1alpha1.Weekday, _ error) {
	all := Days()
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		at, end := dayNamed(first), dayNamed(last)
		if at < 0 || end < 0 {
			return nil, fmt.Errorf("%q: must be days such as Mon, Monday or Mon-Fri, separated by commas", part)
		}
		for {
			if !slices.Contains(days, all[at]) {
				days = append(days, all[at])
			}
			if at == end {
				break
			}
			at = (at + 1) % len(all)
		}
	}
	return days, nil
}

// dayNamed is the position of a day that is written in full or with its first three letters, or -1.
func dayNamed(text string) int {
	return slices.IndexFunc(Days(), func(day v1alpha1.Weekday) bool {
		return strings.EqualFold(text, string(day)) || strings.EqualFold(text, string(day[:3]))
	})
}
