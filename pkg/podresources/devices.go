package podresources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// A held device is a holding without its holder.
type held struct {
	holding Holding
	// wholeClaim: the driver said that the device serves all requests.
	wholeClaim bool
}

// devices returns the devices of a claim of a pod, from the best source.
func (a *attribution) devices(pod *corev1.Pod, at key) []held {
	prepared, onNode := a.prepared[at]
	onNode = onNode && slices.Contains(prepared.PodUIDs, pod.UID)
	claim := a.claims[at]
	// Another claim of the same name may have taken the place of the one that is
	// prepared: the node holds the old one.
	if claim != nil && claim.Status.Allocation != nil && reservedFor(claim, pod.UID) && (!onNode || prepared.UID == claim.UID) {
		return a.claimDevices(pod, at, claim, onNode)
	}
	if onNode {
		var devices []held
		for _, d := range prepared.Devices {
			devices = append(devices, held{fromCheckpoint(prepared, d), len(d.Requests) == 0})
		}
		return devices
	}
	return a.listedDevices(a.listed[key{pod.Namespace, pod.Name}], at)
}

func reservedFor(claim *resourceapi.ResourceClaim, pod types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool {
		// A claim may be reserved for a group of pods.
		return c.UID == pod || c.Resource != "pods"
	})
}

// claimDevices returns the allocated devices of a claim, with the CDI ids of the node.
func (a *attribution) claimDevices(pod *corev1.Pod, at key, claim *resourceapi.ResourceClaim, onNode bool) []held {
	listed := a.listed[key{pod.Namespace, pod.Name}]
	var devices []held
	for _, result := range claim.Status.Allocation.Devices.Results {
		h := Holding{
			ClaimUID: claim.UID, Request: result.Request, Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			AdminAccess: result.AdminAccess != nil && *result.AdminAccess, Source: FromClaim,
			Tolerations: result.Tolerations,
		}
		if result.ShareID != nil {
			h.ShareID = *result.ShareID
		}
		switch {
		case onNode && fill(&h, a.prepared[at]), listed.fill(&h, pod, at):
			h.Prepared = a.isPrepared(listed, at, onNode)
		case skipsPrepare(claim, result.Driver):
			h.Exactness, h.Prepared = Exact, PreparedYes // it has no CDI ids
		default:
			h.Exactness = CDIUnknown
			onNode = onNode && !awaited(a.prepared[at], result.Driver)
			h.Prepared = a.isPrepared(listed, at, onNode)
		}
		devices = append(devices, held{holding: h})
	}
	return devices
}

// skipsPrepare reports whether the kubelet does not ask a driver to prepare a claim
// (KEP-5945): no allocated device of the driver needs it.
func skipsPrepare(claim *resourceapi.ResourceClaim, driver string) bool {
	return !slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver == driver && !slices.Contains(r.SkipNodeOperations, resourceapi.SkipNodeOperationAll) &&
			!slices.Contains(r.SkipNodeOperations, resourceapi.SkipNodeOperationNodePrepareResources)
	})
}

// isPrepared asks the checkpoint first. That the kubelet lists a claim proves that it
// is prepared; that it does not, proves nothing: it may have just started, and it does
// not list claims that no container refers to.
func (a *attribution) isPrepared(listed listedPod, at key, onNode bool) Prepared {
	switch {
	case onNode:
		return PreparedYes
	case a.in.Checkpoint != nil:
		return PreparedNo
	case listed.has(at):
		return PreparedYes
	}
	return PreparedUnknown
}

// A said is what the node says of one device, or of one share of it.
type said struct {
	share     types.UID
	requests  []string // none means all, or not said
	ids       []string
	exactness Exactness
}

// fill sets the CDI ids of a device from the answers about it. A driver need not name the share that an allocation has
// (dra-driver-cpu does not): then the request tells two shares apart. Where it does not either, the ids are those of all.
func (h *Holding) fill(answers []said) bool {
	named := func(a said) bool { return a.share == h.ShareID }
	possible := slices.DeleteFunc(slices.Clone(answers), func(a said) bool { return !named(a) && a.share != "" && h.ShareID != "" })
	if h.ShareID != "" && slices.ContainsFunc(possible, named) {
		possible = slices.DeleteFunc(possible, func(a said) bool { return !named(a) })
	}
	ofRequest := func(a said) bool { return slices.Contains(a.requests, resourceclaim.BaseRequestRef(h.Request)) }
	if slices.ContainsFunc(possible, ofRequest) {
		possible = slices.DeleteFunc(possible, func(a said) bool { return !ofRequest(a) })
	}
	for i, a := range possible {
		switch {
		case i == 0:
			h.CDIIDs, h.Exactness = a.ids, a.exactness
		case !slices.Equal(h.CDIIDs, a.ids):
			h.CDIIDs, h.Exactness = slices.Concat(h.CDIIDs, a.ids), ShareUnknown
		}
	}
	return len(possible) > 0
}

// fill sets the CDI ids of a device from the checkpoint.
func fill(h *Holding, prepared checkpoint.Claim) bool {
	var answers []said
	for _, d := range prepared.Devices {
		if d.Driver == h.Driver && d.Pool == h.Pool && d.Device == h.Device {
			answers = append(answers, said{d.ShareID, d.Requests, d.CDIIDs, Exact})
		}
	}
	if h.fill(answers) {
		return true
	}
	if slices.Contains(prepared.SkipsPrepare, h.Driver) {
		h.Exactness = Exact // without any
		return true
	}
	return false
}

// awaited reports whether the kubelet has no answer of a driver yet: it notes the claim
// before it asks.
func awaited(prepared checkpoint.Claim, driver string) bool {
	return !slices.ContainsFunc(prepared.Devices, func(d checkpoint.Device) bool { return d.Driver == driver })
}

func fromCheckpoint(claim checkpoint.Claim, d checkpoint.Device) Holding {
	h := Holding{
		ClaimUID: claim.UID, Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareID: d.ShareID, CDIIDs: d.CDIIDs,
		Prepared: PreparedYes, Source: FromCheckpoint, Exactness: AdminUnknown,
	}
	if len(d.Requests) == 1 {
		h.Request = d.Requests[0]
	} else if len(d.Requests) > 1 {
		h.Exactness = RequestUnknown
	}
	return h
}

// listedDevices returns the devices of a claim that only the kubelet's answer has, or
// that one with the CDI ids and UID of the checkpoint.
func (a *attribution) listedDevices(pod listedPod, at key) []held {
	var devices []held
	for _, d := range pod.claims[at] {
		h := Holding{
			Driver: d.driver, Pool: d.pool, Device: d.device, ShareID: d.share, CDIIDs: d.ids,
			Prepared: PreparedYes, Source: FromPodResources, Exactness: d.exactness,
		}
		if prepared, ok := a.prepared[at]; ok && fill(&h, prepared) {
			h.ClaimUID = prepared.UID
		}
		if h.Exactness == Exact {
			h.Exactness = RequestUnknown
		}
		devices = append(devices, held{holding: h})
	}
	return devices
}
