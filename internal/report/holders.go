package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Holder is what one namespace holds of one driver.
type Holder struct {
	Namespace string `json:"namespace"`
	Driver    string `json:"driver"`
	Devices   int    `json:"devices"`
	Claims    int    `json:"claims"`
	Pods      int    `json:"pods"`
}

// A Device is one that is allocated.
type Device struct {
	Device string   `json:"device"`
	Claims []string `json:"claims"`
	Pods   []string `json:"pods"`
	Taints []string `json:"taints"`
	// Health is the worst that pods and drivers say about it: Healthy, Unhealthy or Unknown; empty
	// if they say nothing.
	Health corev1.ResourceHealthStatus `json:"health,omitempty"`
}

// began is when a taint was added, as far as is known.
func began(t evictor.Taint) time.Time {
	if t.TimeAdded != nil {
		return t.TimeAdded.Time
	}
	return t.Since
}

// everything selects all devices.
var everything = &resourceapi.DeviceTaintSelector{}

// allocatedTwice names the devices that several claims hold, each for itself.
func (in Input) allocatedTwice() (notes []string) {
	for _, id := range in.Holders.Allocated(everything) {
		holders := in.Holders.Claims(id)
		if len(holders) < 2 {
			continue
		}
		var claims []string
		for _, claim := range holders {
			if exclusive(claim, id) {
				claims = append(claims, claim.Namespace+"/"+claim.Name)
			}
		}
		if len(claims) > 1 {
			slices.Sort(claims)
			notes = append(notes, fmt.Sprintf("device %s is allocated to %s: only one of them can use it; delete the pods of the others", id, strings.Join(claims, " and ")))
		}
	}
	slices.Sort(notes)
	return notes
}

// exclusive reports whether a claim holds a device for itself, neither a share of it nor with
// admin access.
func exclusive(claim *resourceapi.ResourceClaim, id usage.DeviceID) bool {
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device} == id && r.ShareID == nil && (r.AdminAccess == nil || !*r.AdminAccess)
	})
}

// maxNotes is how many notes of a kind a report has.
const maxNotes = 20

func bounded(notes []string) []string {
	if len(notes) <= maxNotes {
		return notes
	}
	return append(notes[:maxNotes:maxNotes], fmt.Sprintf("and %d more like these", len(notes)-maxNotes))
}

// held are the devices that are allocated, and who holds how many.
func (in Input) held(said *health.Records) ([]Device, []Holder) {
	type share struct{ namespace, driver string }
	type counts struct{ devices, claims, pods map[string]bool }
	shares, devices := map[share]counts{}, []Device{}
	ids := in.Holders.Allocated(everything)
	slices.SortFunc(ids, usage.DeviceID.Compare)
	for _, id := range ids {
		device := Device{Device: id.String(), Claims: []string{}, Pods: []string{}, Taints: []string{}}
		for _, claim := range in.Holders.Claims(id) {
			of := share{claim.Namespace, id.Driver}
			if shares[of].devices == nil {
				shares[of] = counts{map[string]bool{}, map[string]bool{}, map[string]bool{}}
			}
			device.Claims = append(device.Claims, claim.Namespace+"/"+claim.Name)
			shares[of].devices[device.Device], shares[of].claims[claim.Name] = true, true
			for _, pod := range in.Holders.Pods(claim.Namespace, claim.Name) {
				device.Pods = append(device.Pods, pod.Namespace+"/"+pod.Name)
				shares[of].pods[pod.Name] = true
			}
		}
		for _, taint := range in.taintsOf(id) {
			device.Taints = append(device.Taints, taint.String())
		}
		if record, found := said.Of(id); found {
			device.Health = record.Health
		}
		slices.Sort(device.Pods)
		device.Pods = slices.Compact(device.Pods)
		devices = append(devices, device)
	}
	holders := []Holder{}
	for of, n := range shares {
		holders = append(holders, Holder{of.namespace, of.driver, len(n.devices), len(n.claims), len(n.pods)})
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Driver, b.Driver))
	})
	return devices, holders
}
