package tracker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A PatchReport says what a ResourceSlicePatch does to the devices of a [Snapshot], and
// what is wrong with it.
type PatchReport struct {
	Patch *v1alpha1.ResourceSlicePatch
	// Problems are the faults of the patch by itself.
	Problems []patch.Problem
	// Report counts slices and devices.
	Report patch.Report
}

// PatchReports returns a report of each patch, in the order of their names. It looks at
// every slice that a patch applies to: milliseconds for thousands of slices.
func (s *Snapshot) PatchReports() []PatchReport {
	byName := map[string]*patch.Report{}
	reports := make([]PatchReport, 0, s.patches.length)
	for e := range s.slices.all() {
		if e.patched == nil {
			continue
		}
		for p, report := range e.patched.Reports() {
			if byName[p.Object.Name] == nil {
				byName[p.Object.Name] = &patch.Report{}
			}
			byName[p.Object.Name].Add(report)
		}
	}
	for p := range s.patches.all() {
		report := PatchReport{Patch: p.object, Problems: p.compiled.Problems}
		if found := byName[p.key()]; found != nil {
			report.Report = *found
		}
		reports = append(reports, report)
	}
	return reports
}

// ReasonConflicting is the reason of a [PatchEvent] of a patch that wanted something
// else than what devices have now, and no priority says why.
const ReasonConflicting patch.Reason = "Conflicting"

// A PatchEvent says that something is wrong with a patch. There is one for each
// generation of a patch and reason, however many devices it is about.
type PatchEvent struct {
	Patch  *v1alpha1.ResourceSlicePatch
	Reason patch.Reason
	// Devices is how many devices it was about then; 0 if it is about the patch itself.
	// [Snapshot.PatchReports] has the number of now.
	Devices int
	// Message says what is wrong, for the first device or place of which it is.
	Message string
}

// events returns what is wrong, at most once for each reason.
func (r *PatchReport) events() (events []PatchEvent) {
	add := func(reason patch.Reason, devices int, message string) {
		if !slices.ContainsFunc(events, func(e PatchEvent) bool { return e.Reason == reason }) {
			events = append(events, PatchEvent{Patch: r.Patch, Reason: reason, Devices: devices, Message: message})
		}
	}
	for _, problem := range r.Problems {
		add(problem.Reason, 0, problem.Message)
	}
	if n := r.Report.Failures.Devices; n > 0 {
		add(patch.CELError, n, fmt.Sprintf("does not apply to %d devices of which an expression failed, the first one: %s", n, r.Report.Failures.First))
	}
	for _, k := range r.Report.Keys() {
		if k.Skipped > 0 {
			add(patch.LimitReached, k.Skipped, fmt.Sprintf("%d devices have no room for %s", k.Skipped, k.Name))
		}
		if k.Tied > 0 {
			add(ReasonConflicting, k.Tied, fmt.Sprintf("in %d devices another patch of the same priority wins %s, %s: set different priorities", k.Tied, k.Name, k.By))
		}
	}
	return events
}

// told remembers which reasons of which generations have been told.
type told map[types.UID]*toldPatch

type toldPatch struct {
	generation int64
	reasons    []patch.Reason
}

// news returns the events of a snapshot that have not been told, and remembers them.
func (t told) news(s *Snapshot) (news []PatchEvent) {
	there := map[types.UID]bool{}
	for _, report := range s.PatchReports() {
		there[report.Patch.UID] = true
		known := t[report.Patch.UID]
		if known == nil || known.generation != report.Patch.Generation {
			known = &toldPatch{generation: report.Patch.Generation}
			t[report.Patch.UID] = known
		}
		for _, event := range report.events() {
			if !slices.Contains(known.reasons, event.Reason) {
				known.reasons = append(known.reasons, event.Reason)
				news = append(news, event)
			}
		}
	}
	for uid := range t {
		if !there[uid] {
			delete(t, uid)
		}
	}
	return news
}

// report calls OnPatchEvent until ctx ends: at most every PatchEventInterval it looks at
// the newest snapshot.
func (t *Tracker) report(ctx context.Context) {
	interval := t.options.PatchEventInterval
	if interval <= 0 {
		interval = time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told, seen := told{}, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		snapshot := t.Snapshot()
		if snapshot.Revision() == seen {
			continue
		}
		seen = snapshot.Revision()
		for _, event := range told.news(snapshot) {
			t.options.OnPatchEvent(event)
		}
	}
}
