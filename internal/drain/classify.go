package drain

import (
	"cmp"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// A candidate is a pod that uses devices of the drain.
type candidate struct {
	Pod
	// claims are those of the drain that it uses.
	claims []*resourceapi.ResourceClaim
	// rank is how many pods of its owner come before it.
	rank int
	// block is why it cannot be evicted now; nil if it can be.
	block *v1alpha1.DrainBlock
}

// A survey is who holds the devices, and what can be done about it.
type survey struct {
	// pods are all, in the order of their names; those that can be evicted are waiting,
	// in the order of their rank.
	pods, waiting []*candidate
	// leaving are on their way out, blocked cannot be evicted now. terminating are those of blocked
	// and waiting that are on their way out, slowly.
	leaving, blocked, terminating []*candidate
	// claims are blocks of claims that no pod keeps.
	claims     []v1alpha1.DrainBlock
	namespaces map[string]bool
}

// classify finds out who holds the devices. from is when the cordon took effect; zero if it
// has not.
func (d *Decision) classify(in Input, from time.Time, force bool) survey {
	s := survey{namespaces: map[string]bool{}}
	byUID := map[types.UID]*candidate{}
	for _, holder := range in.Holders {
		for _, pod := range holder.Pods {
			known := byUID[pod.UID]
			if known == nil {
				known = &candidate{Pod: pod}
				byUID[pod.UID] = known
				s.pods = append(s.pods, known)
			}
			known.claims = append(known.claims, holder.Claim)
		}
		if len(holder.Pods) == 0 {
			s.claims = append(s.claims, reserved(holder.Claim)...)
		}
	}
	slices.SortFunc(s.pods, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	d.noteReturns(in, s.pods, from)
	for _, pod := range s.pods {
		s.namespaces[pod.Namespace] = true
		d.place(in, &s, pod, from, force)
	}
	d.dropOwners(s.pods)
	order(s.waiting, in.Drain.Spec.Order, d.evictedByOwner())
	return s
}

// place puts a pod among those that leave, are blocked, or can be evicted. Those that terminate
// slowly are blocked, and after the deadline deleted again.
func (d *Decision) place(in Input, s *survey, pod *candidate, from time.Time, force bool) {
	slow := terminatesSlowly(pod.Pod.Pod, in.Now)
	switch {
	case slow != nil && !in.Evicting[pod.UID]:
		s.terminating = append(s.terminating, pod)
		if pod.block = slow; force && !in.Asked[pod.UID] && EndsTooLate(pod.Pod.Pod, in.Now) {
			pod.block = d.refused(in, pod, force)
		}
	case leaves(pod.Pod, in.Evicting) || in.Asked[pod.UID] || d.asked(pod.UID):
		s.leaving = append(s.leaving, pod)
		return
	case pod.Spec.NodeName == "": // on its way from the scheduler: it comes back to us
		return
	default:
		pod.block = d.block(in, pod, from, force)
	}
	if pod.block != nil {
		s.blocked = append(s.blocked, pod)
	} else {
		s.waiting = append(s.waiting, pod)
	}
}

// leaves reports whether nothing is left to do about a pod: it is being deleted, or has finished.
func leaves(pod Pod, evicting map[types.UID]bool) bool {
	return pod.DeletionTimestamp != nil || evicting[pod.UID] || finished(pod.Pod)
}

// reserved blocks by consumers of a claim that are not pods: only their owner ends them.
func reserved(claim *resourceapi.ResourceClaim) (blocks []v1alpha1.DrainBlock) {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup != "" || consumer.Resource != "pods" {
			blocks = append(blocks, v1alpha1.DrainBlock{Reason: v1alpha1.BlockedReserved, Namespace: claim.Namespace,
				Claim: claim.Name, Owner: objectName(consumer.Resource, consumer.Name)})
		}
	}
	return blocks
}

// order sorts by the criteria, the first first, then by name. had is how many pods of an
// owner were evicted before.
func order(pods []*candidate, criteria []v1alpha1.DrainOrder, had map[types.UID]int) {
	if criteria == nil {
		criteria = []v1alpha1.DrainOrder{v1alpha1.OrderPriority, v1alpha1.OrderOwnerSpread}
	}
	// The rank within an owner follows the other criteria.
	byPriority := func(a, b *candidate) int { return cmp.Compare(priority(a.Pod), priority(b.Pod)) }
	if slices.Contains(criteria, v1alpha1.OrderPriority) {
		slices.SortStableFunc(pods, byPriority)
	}
	for _, pod := range pods {
		if owner := controllerOf(pod); owner != nil {
			pod.rank = had[owner.UID]
			had[owner.UID]++
		}
	}
	slices.SortStableFunc(pods, func(a, b *candidate) int {
		for _, criterion := range criteria {
			by := cmp.Compare(a.rank, b.rank)
			if criterion == v1alpha1.OrderPriority {
				by = byPriority(a, b)
			}
			if by != 0 {
				return by
			}
		}
		return 0
	})
}

func priority(pod Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// outlives reports whether a claim is there after its pods: it was not made for one.
func outlives(claim *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOf(claim)
	return owner == nil || owner.Kind != "Pod"
}

// allocated is when a claim was allocated, zero if that is not known.
func allocated(claim *resourceapi.ResourceClaim) time.Time {
	if at := claim.Status.Allocation.AllocationTimestamp; at != nil {
		return at.Time
	}
	if !outlives(claim) {
		return claim.CreationTimestamp.Time // it was allocated soon after
	}
	return time.Time{}
}

// tolerates reports whether a claim has one of the devices by a toleration of the cordon.
func tolerates(claim *resourceapi.ResourceClaim, drain *v1alpha1.DeviceDrain, devices []v1alpha1.DeviceName) bool {
	taint := Taint(drain)
	for _, r := range claim.Status.Allocation.Devices.Results {
		_, ours := slices.BinarySearchFunc(devices, v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, compareNames)
		if ours && slices.ContainsFunc(r.Tolerations, func(t resourceapi.DeviceToleration) bool { return toleration.Evaluator{}.Tolerates(t, taint) }) {
			return true
		}
	}
	return false
}
