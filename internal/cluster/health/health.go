// Package health finds what is said about the health of allocated devices: by kubelets in the
// status of pods (KEP-4680), and by drivers in the status of claims. It is pure.
//
// A user who may write the status of a pod can name any device there. A name counts only if it is a
// device of a claim that is allocated and reserved for the pod.
package health

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// What is read of one pod, and how much is kept.
const (
	maxNames   = 256  // claims and requests of a pod
	maxDevices = 1024 // of a pod
	maxUnclear = 100
	maxMessage = 256 // bytes
)

// A Record is the worst that is said about a device.
type Record struct {
	Health corev1.ResourceHealthStatus
	// From is who says so, such as pod ml/trainer-0; of several the first by name.
	From string
	// Message is one line of text, and may be empty.
	Message string
}

// Records are what is said about devices. The zero value is ready to use.
type Records struct {
	devices map[usage.DeviceID]Record
	// well are the devices of which a driver says in a claim that they work.
	well    map[usage.DeviceID]bool
	unclear []Record
}

// Healthy reports whether a device is said to be healthy: by a kubelet, or by its driver in the status of a claim
// that a pod has. A kubelet that does not know says nothing.
func (r *Records) Healthy(id usage.DeviceID) bool {
	record, found := r.devices[id]
	return found && record.Health == corev1.ResourceHealthStatusHealthy || r.well[id] && (!found || rank(record.Health) == 1)
}

// Of returns what is said about a device; false if nothing is.
func (r *Records) Of(id usage.DeviceID) (Record, bool) {
	record, found := r.devices[id]
	return record, found
}

// All yields what is said about devices.
func (r *Records) All() iter.Seq2[usage.DeviceID, Record] { return maps.All(r.devices) }

// Unhealthy are the devices that are said to be unhealthy, in their order.
func (r *Records) Unhealthy() (ids []usage.DeviceID) {
	for id, record := range r.devices {
		if record.Health == corev1.ResourceHealthStatusUnhealthy {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, usage.DeviceID.Compare)
	return ids
}

// Unclear are the unhealthy resources of pods that cannot be told from other devices of the same
// request, in the order in which they were added. Their messages name them.
func (r *Records) Unclear() []Record { return r.unclear }

// brokenIfFalse are the types of the conditions that are false for a broken device.
func brokenIfFalse() []string { return []string{"Ready", "Healthy"} }

// AddClaim adds what drivers say in the status of a claim.
func (r *Records) AddClaim(claim *resourceapi.ResourceClaim) {
	for i := range claim.Status.Devices {
		status := &claim.Status.Devices[i]
		for _, c := range status.Conditions {
			id := usage.DeviceID{Driver: status.Driver, Pool: status.Pool, Device: status.Device}
			switch {
			case !slices.Contains(brokenIfFalse(), c.Type):
			case c.Status == metav1.ConditionTrue && len(claim.Status.ReservedFor) > 0:
				if r.well == nil {
					r.well = map[usage.DeviceID]bool{}
				}
				r.well[id] = true
			case c.Status == metav1.ConditionFalse:
				r.add(id, Record{corev1.ResourceHealthStatusUnhealthy,
					"claim " + claim.Namespace + "/" + claim.Name, line(c.Type + "=False: " + c.Message)})
			}
		}
	}
}

// AddPod adds what a kubelet says in the status of a pod. claim returns the allocated claim of a
// name, nil if there is none.
func (r *Records) AddPod(pod *corev1.Pod, claim func(namespace, name string) *resourceapi.ResourceClaim) {
	names, devices := maxNames, maxDevices
	for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range containers {
			for j := range containers[i].AllocatedResourcesStatus {
				status := &containers[i].AllocatedResourcesStatus[j]
				if names--; names < 0 {
					return
				}
				results := resultsOf(pod, status.Name, claim)
				if len(results) == 0 {
					continue
				}
				if devices -= len(status.Resources); devices < 0 {
					return
				}
				r.addStatus(pod, status, results)
			}
		}
	}
}

// resultsOf are the devices that a name such as claim:gpu/request means; none if the pod does not
// have them.
func resultsOf(pod *corev1.Pod, name corev1.ResourceName, claim func(namespace, name string) *resourceapi.ResourceClaim) (results []resourceapi.DeviceRequestAllocationResult) {
	reference, isClaim := strings.CutPrefix(string(name), "claim:")
	if !isClaim {
		return nil
	}
	reference, request, _ := strings.Cut(reference, "/")
	of := claim(pod.Namespace, claimName(pod, reference))
	if of == nil || of.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, of, true) {
		return nil
	}
	for _, result := range of.Status.Allocation.Devices.Results {
		if request == "" || resourceclaim.BaseRequestRef(result.Request) == resourceclaim.BaseRequestRef(request) {
			results = append(results, result)
		}
	}
	return results
}

// claimName is the name of the claim that a pod refers to; empty for none.
func claimName(pod *corev1.Pod, reference string) string {
	at := slices.IndexFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == reference })
	if at >= 0 {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[at]); err == nil && name != nil {
			return *name
		}
		return ""
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName == reference {
		return reference
	}
	return ""
}

func (r *Records) addStatus(pod *corev1.Pod, status *corev1.ResourceStatus, results []resourceapi.DeviceRequestAllocationResult) {
	from := "pod " + pod.Namespace + "/" + pod.Name
	alike := len(status.Resources) == len(results) && !slices.ContainsFunc(status.Resources, func(h corev1.ResourceHealth) bool { return h.Health != status.Resources[0].Health })
	for _, resource := range status.Resources {
		record := Record{resource.Health, from, ""}
		if resource.Message != nil {
			record.Message = line(*resource.Message)
		}
		at := find(string(resource.ResourceID), results)
		switch {
		case at >= 0:
			r.add(idOf(results[at]), record)
		case alike:
			for _, result := range results {
				r.add(idOf(result), Record{Health: record.Health, From: from})
			}
		case record.Health == corev1.ResourceHealthStatusUnhealthy && len(r.unclear) < maxUnclear:
			record.Message = line(string(resource.ResourceID) + " of " + string(status.Name) + " " + record.Message)
			r.unclear = append(r.unclear, record)
		}
	}
}

func idOf(r resourceapi.DeviceRequestAllocationResult) usage.DeviceID {
	return usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
}

// find returns the place of the device that a resource ID means, -1 if that is not clear. The API
// says that an ID is driver/pool/device. The kubelet of 1.37 writes the first CDI name of the device
// where it has one, vendor/class=name, in which drivers write the device at the end.
func find(id string, results []resourceapi.DeviceRequestAllocationResult) int {
	if at := slices.IndexFunc(results, func(r resourceapi.DeviceRequestAllocationResult) bool { return idOf(r).String() == id }); at >= 0 {
		return at
	}
	_, name, isCDI := strings.Cut(id, "=")
	if !isCDI {
		return -1
	}
	if len(results) == 1 {
		return 0
	}
	best, twice := -1, false
	for i, r := range results {
		if name != r.Device && !strings.HasSuffix(name, "-"+r.Device) {
			continue
		}
		switch {
		case best < 0 || len(r.Device) > len(results[best].Device):
			best, twice = i, false
		case len(r.Device) == len(results[best].Device):
			twice = true // in two pools
		}
	}
	if twice {
		return -1
	}
	return best
}

// add keeps the worst.
func (r *Records) add(id usage.DeviceID, record Record) {
	if r.devices == nil {
		r.devices = map[usage.DeviceID]Record{}
	}
	if had, found := r.devices[id]; !found || compare(record, had) < 0 {
		r.devices[id] = record
	}
}

// compare orders records of a device: the worst first, then the names, and what has a message.
func compare(a, b Record) int {
	if c := cmp.Or(rank(b.Health)-rank(a.Health), cmp.Compare(a.From, b.From)); c != 0 {
		return c
	}
	if (a.Message == "") != (b.Message == "") {
		return cmp.Compare(b.Message, a.Message)
	}
	return cmp.Compare(a.Message, b.Message)
}

// rank orders what is said, the worst last. What the API does not know says nothing.
func rank(h corev1.ResourceHealthStatus) int {
	switch h {
	case corev1.ResourceHealthStatusUnhealthy:
		return 2
	case corev1.ResourceHealthStatusHealthy:
		return 0
	}
	return 1
}

// line is text on one line, at most maxMessage bytes long.
func line(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }), " ")
}
