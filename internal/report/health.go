package report

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// health is what pods and claims say about the allocated devices.
func (in Input) health() *health.Records {
	said, seen := &health.Records{}, map[*resourceapi.ResourceClaim]bool{}
	for _, id := range in.Holders.Allocated(everything) {
		for _, claim := range in.Holders.Claims(id) {
			if !seen[claim] {
				seen[claim] = true
				said.AddClaim(claim)
			}
		}
	}
	for _, pod := range in.Pods {
		said.AddPod(pod, in.Holders.Claim)
	}
	return said
}

// unhealthy are notes about devices that are said to be unhealthy, and that no taint keeps new
// claims from.
func (in Input) unhealthy(said *health.Records) (notes []string) {
	for _, id := range said.Unhealthy() {
		if slices.ContainsFunc(in.taintsOf(id), keepsAway) {
			continue
		}
		record, _ := said.Of(id)
		notes = append(notes, fmt.Sprintf("device %s is unhealthy, says the status of %s%s, and no taint keeps new claims from it: dra-steward taint %s example.com/unhealthy:NoSchedule --reason \"reported by a pod\"",
			id, record.From, inBrackets(record.Message), id))
	}
	return bounded(notes)
}

// unclear are notes about unhealthy devices of which only the claim is known.
func unclear(said *health.Records) (notes []string) {
	for _, record := range said.Unclear() {
		notes = append(notes, fmt.Sprintf("a device is unhealthy, says the status of %s, which does not say which one: %s", record.From, record.Message))
	}
	return bounded(notes)
}

func keepsAway(t evictor.Taint) bool {
	return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
}

func inBrackets(message string) string {
	if message == "" {
		return ""
	}
	return " (" + message + ")"
}

// isHealthy reports whether a device is said to be healthy, and not to be anything else.
func isHealthy(said *health.Records, id usage.DeviceID) bool {
	record, found := said.Of(id)
	return found && record.Health == corev1.ResourceHealthStatusHealthy
}

// healed is a finding about the taint of a driver: devices that have had it for long and that pods
// report as healthy; empty if there are none.
func (in Input) healed(taint tainted, said *health.Records) string {
	var ids []string
	for id, since := range taint.since {
		if !since.IsZero() && in.Now.Sub(since) > forgottenAfter && isHealthy(said, id) {
			ids = append(ids, id.String())
		}
	}
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return "older than a day, and pods report as Healthy: " + plural.List(ids, few, len(ids))
}

// sinceOf is when a device got a taint, the zero time if that is not known.
func sinceOf(t *resourceapi.DeviceTaint) time.Time {
	if t.TimeAdded == nil {
		return time.Time{}
	}
	return t.TimeAdded.Time
}
