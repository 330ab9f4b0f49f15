package lint

import (
	"fmt"
	"regexp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Change is what the version of Kubernetes after the newest one does to objects of
// resource.k8s.io.
type Change struct {
	// What changes, and the pull requests that do it.
	What, Reference string
	// Merged is false for what is only proposed.
	Merged bool
	// Stored is the meaning for objects that are stored.
	Stored string
	// Kind and Field are of a field that the newest version does not know; empty for others.
	Kind  string
	Field *regexp.Regexp
	// Example is a manifest that shows the change; empty where no object does.
	Example string
}

// Changes are the known ones.
func Changes() []Change { return slices.Clone(changes) }

var changes = []Change{
	{
		What: "The gates DRADeviceTaints and DRADeviceTaintRules are locked to on", Reference: "kubernetes#140256", Merged: true,
		Stored: "None changes. A component that switches one of the gates off does not start.",
	},
	{
		What: "A DeviceTaintRule with an empty deviceSelector draws a warning", Reference: emptySelectorReference, Merged: true,
		Stored:  "None changes. The rule still selects every device. A rule without deviceSelector draws no warning.",
		Example: "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: all-devices}\nspec:\n  deviceSelector: {}\n  taint: {key: example.com/maintenance, effect: NoSchedule}\n",
	},
	{
		What: "deviceSelector.all selects every device", Reference: "kubernetes#142287",
		Stored: "None changes. A later version is to drop the support of empty selectors: find your rules with one, and name a driver or, once your version has the field, write all.",
		Kind:   "DeviceTaintRule", Field: regexp.MustCompile(`^spec\.deviceSelector\.all$`),
		Example: "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: all-devices}\nspec:\n  deviceSelector: {all: true}\n  taint: {key: example.com/maintenance, effect: NoSchedule}\n",
	},
	{
		What: "Counters of a slice are shared by what requests consume (KEP-5941)", Reference: "kubernetes#140084",
		Stored: "None changes. The fields are new.",
		Kind:   "ResourceSlice", Field: regexp.MustCompile(`^spec\.(sharedCounters\[[^]]*\]\.counters.*\brequestPolicy|devices\[[^]]*\]\.consumesCounters\[[^]]*\]\.counters.*\bvalueFrom)$`),
		Example: "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: node-1}\nspec:\n  driver: nic.example.com\n  nodeName: node-1\n  pool: {name: node-1, generation: 1, resourceSliceCount: 2}\n" +
			"  devices:\n  - name: vf-0\n    consumesCounters:\n    - counterSet: pf-0\n      counters: {bandwidth: {valueFrom: {capacityKey: nic.example.com/bandwidth}}}\n",
	},
	{
		What: "Lists as attributes become beta (KEP-5491)", Reference: "enhancements#6354",
		Stored: "None changes. If the gate is on by default then, a slice keeps the lists that an API server drops today, and expressions meet a list where they met no value.",
	},
}

const emptySelectorReference = "kubernetes#141831"

// proposed returns what to say of a problem that is a field of a coming version; false for
// other problems and other sites.
func (s *Site) proposed(kind string, p manifest.Problem) (message string, is bool) {
	if !s.reviewer.Profile.Next || p.Kind != manifest.UnknownField {
		return "", false
	}
	for _, c := range changes {
		if c.Kind == kind && c.Field.MatchString(p.Path) {
			return fmt.Sprintf("no released API server knows the field; %s proposes it", c.Reference), true
		}
	}
	return "", false
}

// next reports what the coming version warns about.
func (j *judgement) next(object manifest.Object) {
	rule, is := object.(*resourceapi.DeviceTaintRule)
	if !is || !j.site.reviewer.Profile.Next || rule.Spec.DeviceSelector == nil || *rule.Spec.DeviceSelector != (resourceapi.DeviceTaintSelector{}) {
		return
	}
	if slices.ContainsFunc(j.reports, func(d Diagnostic) bool { return d.Rule == rulebook.ComingChange }) {
		return // the rule selects all by its field
	}
	j.add(review.Finding{Rule: rulebook.ComingChange, Severity: validate.Warning, Path: "spec.deviceSelector",
		Message: "the API server warns of an empty selector, which selects every device of every driver (" + emptySelectorReference + ")"})
}
