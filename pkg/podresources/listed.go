package podresources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A listedPod is the kubelet's answer about a pod, with the accumulation undone.
type listedPod struct {
	raw    *v1.PodResources
	claims map[key][]listedDevice
}

type listedDevice struct {
	driver, pool, device string
	share                types.UID
	ids                  []string
	exactness            Exactness
}

func newListedPod(pod *v1.PodResources) listedPod {
	l := listedPod{raw: pod, claims: map[key][]listedDevice{}}
	for _, container := range pod.GetContainers() {
		for _, resource := range container.GetDynamicResources() {
			at := key{resource.GetClaimNamespace(), resource.GetClaimName()}
			if _, known := l.claims[at]; !known { // each container has all of the claim
				l.claims[at] = disentangle(resource.GetClaimResources())
			}
		}
	}
	return l
}

func (l listedPod) has(at key) bool { _, ok := l.claims[at]; return ok }

// disentangle gives each device its own CDI ids. The kubelet collects those of all
// devices of a driver in one list (GetDynamicResources in
// pkg/kubelet/cm/container_manager_linux.go), so that each list begins with the one
// before. Where all of them do, a device's own ids are the rest; but a kubelet without
// the fault could give such lists, too. Where one does not, the lists are right.
func disentangle(resources []*v1.ClaimResource) []listedDevice {
	byDriver := map[string][]int{}
	devices := make([]listedDevice, len(resources))
	for i, r := range resources {
		devices[i] = listedDevice{
			driver: r.GetDriverName(), pool: r.GetPoolName(), device: r.GetDeviceName(), share: types.UID(r.GetShareId()),
			ids: ids(r), exactness: Exact,
		}
		byDriver[r.GetDriverName()] = append(byDriver[r.GetDriverName()], i)
	}
	for _, indexes := range byDriver {
		if len(indexes) == 1 || !nested(resources, indexes) {
			continue
		}
		before := 0
		for _, i := range indexes {
			all := devices[i].ids
			devices[i].ids, devices[i].exactness = all[before:], CDIInferred
			before = len(all)
		}
	}
	return devices
}

func ids(r *v1.ClaimResource) []string {
	var names []string
	for _, device := range r.GetCdiDevices() {
		names = append(names, device.GetName())
	}
	return names
}

// nested reports whether each list begins with the one before.
func nested(resources []*v1.ClaimResource, indexes []int) bool {
	var before []string
	for _, i := range indexes {
		now := ids(resources[i])
		if len(now) < len(before) || !slices.Equal(before, now[:len(before)]) {
			return false
		}
		before = now
	}
	return true
}

// fill sets the CDI ids of a device from the kubelet's answer. Where they are inferred,
// the status of the pod may confirm them.
func (l listedPod) fill(h *Holding, pod *corev1.Pod, at key) bool {
	var answers []said
	for _, d := range l.claims[at] {
		if d.driver == h.Driver && d.pool == h.Pool && d.device == h.Device {
			answers = append(answers, said{share: d.share, ids: d.ids, exactness: d.exactness})
		}
	}
	found := h.fill(answers)
	if found && h.Exactness == CDIInferred && confirmed(pod, *h, at.name, l.claims[at]) {
		h.Exactness = Exact
	}
	return found
}

// confirmed reports whether the health that the kubelet reports (KEP-4680) names the same
// first CDI id for the request: ResourceHealth.ResourceID is that of the device. It
// confirms a device only where it alone has at most one id, the health has no more.
func confirmed(pod *corev1.Pod, h Holding, claim string, all []listedDevice) bool {
	if len(h.CDIIDs) != 1 {
		return false
	}
	for _, d := range all {
		if len(d.ids) > 1 {
			return false // where one list was cut wrongly, its neighbours were, too
		}
	}
	names := claimNames(pod, listedPod{})
	for _, status := range pod.Status.ContainerStatuses {
		for _, resource := range status.AllocatedResourcesStatus {
			reference, request, one := strings.Cut(strings.TrimPrefix(string(resource.Name), "claim:"), "/")
			if names[reference] != claim || !one || request != resourceclaim.BaseRequestRef(h.Request) {
				continue
			}
			if slices.ContainsFunc(resource.Resources, func(r corev1.ResourceHealth) bool { return string(r.ResourceID) == h.CDIIDs[0] }) {
				return true
			}
		}
	}
	return false
}

// claimNames maps the claims of a pod's spec to names of ResourceClaims. Where the
// status is missing, as in answers of the kubelet's Pods API, the names that the
// kubelet lists are used: one made from a template begins with pod and claim.
func claimNames(pod *corev1.Pod, listed listedPod) map[string]string {
	names := map[string]string{}
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(pod, podClaim)
		switch {
		case err == nil && name != nil:
			names[podClaim.Name] = *name
		case err != nil:
			names[podClaim.Name] = listed.generated(pod, podClaim.Name)
		}
	}
	return names
}

// generated returns the only listed claim that can have been made from a template for
// a claim of the pod, or nothing.
func (l listedPod) generated(pod *corev1.Pod, podClaim string) (found string) {
	for at := range l.claims {
		suffix, ok := strings.CutPrefix(at.name, pod.Name+"-"+podClaim+"-")
		if !ok || strings.Contains(suffix, "-") {
			continue
		}
		if found != "" {
			return ""
		}
		found = at.name
	}
	return found
}
