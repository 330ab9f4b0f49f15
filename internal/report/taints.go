package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Taint is one that devices have for the same reason.
type Taint struct {
	// Source is the driver, or the DeviceTaintRule.
	Source tracker.Source `json:"source"`
	Taint  string         `json:"taint"`
	// Devices have it, Held of them are allocated, to claims that so many Pods use.
	Devices int `json:"devices"`
	Held    int `json:"held"`
	Pods    int `json:"pods"`
	// Dormant is true if no pod is affected.
	Dormant bool `json:"dormant"`
	// Findings are what is wrong with a DeviceTaintRule.
	Findings []string `json:"findings,omitempty"`
}

// tainted is what has one taint.
type tainted struct {
	devices map[usage.DeviceID]bool
	held    map[usage.DeviceID]bool
	pods    map[string]bool
	// since is when published devices got it, the zero time if that is not known.
	since map[usage.DeviceID]time.Time
}

func newTainted() tainted {
	return tainted{map[usage.DeviceID]bool{}, map[usage.DeviceID]bool{}, map[string]bool{}, map[usage.DeviceID]time.Time{}}
}

func (t tainted) add(in Input, id usage.DeviceID) {
	t.devices[id] = true
	for _, claim := range in.Holders.Claims(id) {
		t.held[id] = true
		for _, pod := range in.Holders.Pods(claim.Namespace, claim.Name) {
			t.pods[pod.Namespace+"/"+pod.Name] = true
		}
	}
}

// taints are all of them, rules that select nothing included, by what they come from.
func (in Input) taints(said *health.Records) []Taint {
	type one struct {
		source tracker.Source
		taint  string
	}
	all, rules := map[one]tainted{}, map[string]*resourceapi.DeviceTaintRule{}
	of := func(source tracker.Source, taint resourceapi.DeviceTaint) tainted {
		source.UID = ""
		key := one{source, toleration.TaintText(taint)}
		if all[key].devices == nil {
			all[key] = newTainted()
		}
		return all[key]
	}
	for rule := range in.View.Rules() {
		rules[rule.Name] = rule
		entry := of(tracker.Source{Kind: tracker.RuleSource, Name: rule.Name}, rule.Spec.Taint)
		for _, id := range in.Holders.Allocated(rule.Spec.DeviceSelector) {
			entry.add(in, id) // published or not
		}
	}
	for d := range in.View.Devices() {
		for _, taint := range d.Taints() {
			id, entry := usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}, of(taint.Source, taint.DeviceTaint)
			entry.add(in, id)
			entry.since[id] = sinceOf(&taint.DeviceTaint)
		}
	}
	sick := in.sick(said)
	listed := []Taint{}
	for k, n := range all {
		taint := Taint{Source: k.source, Taint: k.taint, Devices: len(n.devices), Held: len(n.held), Pods: len(n.pods), Dormant: len(n.held) == 0}
		if rule := rules[k.source.Name]; k.source.Kind == tracker.RuleSource && rule != nil {
			taint.Findings = in.findings(rule, n.devices, sick, said)
		} else if healed := in.healed(n, said); k.source.Kind == tracker.DriverSource && healed != "" {
			taint.Findings = []string{healed}
		}
		listed = append(listed, taint)
	}
	slices.SortFunc(listed, func(a, b Taint) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(b.Held, a.Held), cmp.Compare(a.Source.String(), b.Source.String()), cmp.Compare(a.Taint, b.Taint))
	})
	return listed
}

// sick are the devices that their drivers taint, or that pods or drivers say are unhealthy.
func (in Input) sick(said *health.Records) map[usage.DeviceID]bool {
	sick := map[usage.DeviceID]bool{}
	for _, id := range said.Unhealthy() {
		sick[id] = true
	}
	for d := range in.View.Devices() {
		for _, taint := range d.Taints() {
			if taint.Source.Kind == tracker.DriverSource {
				sick[usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}] = true
			}
		}
	}
	return sick
}

// forgottenAfter is how old a rule is before it counts as forgotten.
const forgottenAfter = 24 * time.Hour

// findings are what is wrong with a rule that taints devices. The rules of drains have an owner,
// and go with it.
func (in Input) findings(rule *resourceapi.DeviceTaintRule, devices, sick map[usage.DeviceID]bool, said *health.Records) (findings []string) {
	if _, drains := rule.Labels[v1alpha1.Group+"/drain"]; drains {
		return nil
	}
	if strings.TrimSpace(rule.Annotations[v1alpha1.OwnerAnnotation]) == "" {
		findings = append(findings, "no owner")
	}
	switch at, has, err := taints.Expiry(rule); {
	case err != nil:
		findings = append(findings, "its time of expiry cannot be read")
	case has && at.Before(in.Now):
		findings = append(findings, "expired at "+at.UTC().Format(time.RFC3339))
	}
	isSick := func(id usage.DeviceID) bool { return sick[id] }
	if len(devices) == 0 || in.Now.Sub(rule.CreationTimestamp.Time) <= forgottenAfter || slices.ContainsFunc(slices.Collect(maps.Keys(devices)), isSick) {
		return findings
	}
	finding, healthy := "older than a day, and the drivers taint none of its devices", 0
	for id := range devices {
		if isHealthy(said, id) {
			healthy++
		}
	}
	if healthy > 0 {
		finding += fmt.Sprintf("; pods report %d of %d as Healthy", healthy, len(devices))
	}
	return append(findings, finding)
}
