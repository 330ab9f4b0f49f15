package tracker

import (
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
