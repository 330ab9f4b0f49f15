package podresources

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// Attribute says which container holds which device. It does not change its input. The
// result is sorted by pod, container, claim, driver, pool and device.
func Attribute(in Input) []Holding {
	a := newAttribution(in)
	for _, pod := range in.Pods {
		a.addPod(pod)
	}
	a.addListed()
	a.addForgotten()
	a.addPlugins()
	slices.SortStableFunc(a.holdings, func(x, y Holding) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Pod, y.Pod), cmp.Compare(x.PodUID, y.PodUID),
			cmp.Compare(x.Container, y.Container), cmp.Compare(x.Claim, y.Claim), cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Driver, y.Driver),
			cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Device, y.Device), cmp.Compare(x.ShareID, y.ShareID), cmp.Compare(x.Request, y.Request))
	})
	return a.holdings
}

type key struct{ namespace, name string }

// attribution is one run of Attribute.
type attribution struct {
	in       Input
	claims   map[key]*resourceapi.ResourceClaim // of the API server
	prepared map[key]checkpoint.Claim           // of the checkpoint
	listed   map[key]listedPod                  // of the kubelet's answer, by pod
	covered  map[key]bool                       // pods that are done
	uids     map[types.UID]bool                 // and their UIDs
	holdings []Holding
	added    map[identity]bool // the holdings of claims
}

func newAttribution(in Input) *attribution {
	a := &attribution{
		in: in, claims: map[key]*resourceapi.ResourceClaim{}, prepared: map[key]checkpoint.Claim{},
		listed: map[key]listedPod{}, covered: map[key]bool{}, uids: map[types.UID]bool{}, added: map[identity]bool{},
	}
	for _, claim := range in.Claims {
		a.claims[key{claim.Namespace, claim.Name}] = claim
	}
	for _, claim := range in.Checkpoint {
		a.prepared[key{claim.Namespace, claim.Name}] = claim
	}
	if in.Listing != nil {
		for _, pod := range in.Listing.Pods {
			a.listed[key{pod.GetNamespace(), pod.GetName()}] = newListedPod(pod)
		}
	}
	return a
}

// addPod adds what the containers of a pod hold, and the pod as a whole.
func (a *attribution) addPod(pod *corev1.Pod) {
	a.covered[key{pod.Namespace, pod.Name}] = true
	a.uids[pod.UID] = true
	if isDone(pod) {
		return
	}
	names := claimNames(pod, a.listed[key{pod.Namespace, pod.Name}])
	before := len(a.holdings)
	for _, container := range holders(pod) {
		// One claim may be used by several requests of a container.
		for _, ref := range container.Resources.Claims {
			if name := names[ref.Name]; name != "" {
				a.addClaim(pod, container.Name, name, ref.Request, "")
			}
		}
		a.addExtended(pod, container)
	}
	a.addUnused(pod, names, a.holdings[before:])
}

// isDone reports whether a pod has ended and holds nothing.
func isDone(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// addUnused adds to the pod as a whole what none of its containers holds: devices of
// requests that no container refers to, and those that only init containers used, which
// have finished. The devices stay allocated and prepared until the pod ends.
func (a *attribution) addUnused(pod *corev1.Pod, names map[string]string, used []Holding) {
	ofContainers := map[identity]bool{}
	for _, h := range used {
		h.Container = ""
		ofContainers[identityOf(h)] = true
	}
	add := func(name string, resource func(request string) string) {
		for _, d := range a.devices(pod, key{pod.Namespace, name}) {
			h := heldBy(pod, "", name, resource(d.holding.Request), d.holding)
			if !ofContainers[identityOf(h)] {
				a.addOnce(h)
			}
		}
	}
	for _, podClaim := range pod.Spec.ResourceClaims {
		if name := names[podClaim.Name]; name != "" {
			add(name, func(string) string { return "" })
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		add(status.ResourceClaimName, func(request string) string { return extendedResource(status, request) })
	}
}

// extendedResource returns the extended resource that a request was made for.
func extendedResource(status *corev1.PodExtendedResourceClaimStatus, request string) string {
	for _, mapping := range status.RequestMappings {
		if mapping.RequestName == resourceclaim.BaseRequestRef(request) {
			return mapping.ResourceName
		}
	}
	return ""
}

// addExtended adds what a container got for extended resources, by the condition of
// the kubelet's DRA manager.
func (a *attribution) addExtended(pod *corev1.Pod, container corev1.Container) {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return
	}
	for _, mapping := range status.RequestMappings {
		quantity := container.Resources.Requests[corev1.ResourceName(mapping.ResourceName)]
		if mapping.ContainerName == container.Name && !quantity.IsZero() {
			a.addClaim(pod, container.Name, status.ResourceClaimName, mapping.RequestName, mapping.ResourceName)
		}
	}
}

// addClaim adds the devices of a claim, those of one request if request is not empty.
func (a *attribution) addClaim(pod *corev1.Pod, container, name, request, resource string) {
	for _, d := range a.devices(pod, key{pod.Namespace, name}) {
		if request != "" && d.holding.Request != "" && resourceclaim.BaseRequestRef(d.holding.Request) != resourceclaim.BaseRequestRef(request) {
			continue
		}
		h := heldBy(pod, container, name, resource, d.holding)
		if (h.Exactness == Exact || h.Exactness == AdminUnknown) && request != "" && h.Request == "" && !d.wholeClaim {
			h.Exactness = RequestUnknown
		}
		a.addOnce(h)
	}
}

// addOnce adds a holding: two references of a container to one claim give a device once, and
// the kubelet can note a device again each time that it prepares a claim.
func (a *attribution) addOnce(h Holding) {
	if is := identityOf(h); !a.added[is] {
		a.added[is] = true
		a.holdings = append(a.holdings, h)
	}
}

// heldBy returns a holding with its holder: a container, or the pod as a whole.
func heldBy(pod *corev1.Pod, container, claim, resource string, h Holding) Holding {
	h.Namespace, h.Pod, h.PodUID, h.Container = pod.Namespace, pod.Name, pod.UID, container
	h.Claim, h.Resource, h.State = claim, resource, stateOf(pod, container)
	return h
}

// stateOf returns the state of a container by the status of its pod.
func stateOf(pod *corev1.Pod, container string) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, status := range statuses {
			switch {
			case status.Name != container:
			case status.State.Running != nil:
				return "running"
			case status.State.Terminated != nil:
				return "terminated"
			case status.State.Waiting != nil:
				return "waiting"
			}
		}
	}
	return ""
}

// An identity is what two holdings of the same device by the same holder have in common.
type identity struct {
	namespace, pod, container, claim, request, driver, pool, device string
	podUID, claimUID, shareID                                       types.UID
}

func identityOf(h Holding) identity {
	return identity{h.Namespace, h.Pod, h.Container, h.Claim, h.Request, h.Driver, h.Pool, h.Device, h.PodUID, h.ClaimUID, h.ShareID}
}

// holders are the containers of a pod that hold devices now: an init container has
// none once it has finished.
func holders(pod *corev1.Pod) []corev1.Container {
	done := map[string]bool{}
	for _, status := range pod.Status.InitContainerStatuses {
		done[status.Name] = status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	}
	var all []corev1.Container
	for _, c := range pod.Spec.InitContainers {
		restarts := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if restarts || !done[c.Name] {
			all = append(all, c)
		}
	}
	return append(all, pod.Spec.Containers...)
}

// addListed adds the pods that only the kubelet knows.
func (a *attribution) addListed() {
	for at, pod := range a.listed {
		if a.covered[at] {
			continue
		}
		for _, container := range pod.raw.GetContainers() {
			for _, resource := range container.GetDynamicResources() {
				claim := key{resource.GetClaimNamespace(), resource.GetClaimName()}
				for _, d := range a.listedDevices(pod, claim) {
					h := d.holding
					h.Namespace, h.Pod, h.Container, h.Claim = at.namespace, at.name, container.GetName(), claim.name
					h.Exactness = RequestUnknown
					a.addOnce(h)
				}
			}
		}
	}
}

// addForgotten adds the pods that only the checkpoint knows, by UID: deleted by force,
// or about to be unprepared.
func (a *attribution) addForgotten() {
	if a.in.Pods == nil {
		return
	}
	for _, claim := range a.in.Checkpoint {
		for _, uid := range claim.PodUIDs {
			if a.uids[uid] {
				continue
			}
			for _, d := range claim.Devices {
				h := fromCheckpoint(claim, d)
				h.Namespace, h.PodUID, h.Claim = claim.Namespace, uid, claim.Name
				a.addOnce(h)
			}
		}
	}
}
