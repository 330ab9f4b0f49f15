package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Change is what happens to a Cluster.
type Change struct {
	// After is the cluster after the change, before pods leave.
	After Cluster
	// Leaving are the pods that leave apart from those that taints evict.
	Leaving []Leaving
	// Arriving are pods that are created.
	Arriving []*corev1.Pod
	// Gone are nodes that are away.
	Gone []string
	// Restarted asks for the running pods, too, that would not land if they were created
	// again.
	Restarted bool
}

// A Verdict is whether a pod lands.
type Verdict string

const (
	// Lands: there is a place. Waits: there is none. Never: another place would not help. Unknown: what decides was not
	// checked.
	Lands   Verdict = "Lands"
	Waits   Verdict = "Waits"
	Never   Verdict = "Never"
	Unknown Verdict = "Unknown"
)

// A Move is a pod and where it lands.
type Move struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Owner is the controller of the pod as kind/name, empty for none.
	Owner string `json:"owner,omitempty"`
	// From is the node that it leaves, After how long after the change.
	From  string          `json:"from,omitempty"`
	After metav1.Duration `json:"after"`

	Verdict Verdict `json:"verdict"`
	// Contested is true if the order in which pods are placed, or the nodes that
	// kube-scheduler selects for others, decide about the verdict.
	Contested bool `json:"contested,omitempty"`
	// Node and Devices are where the pod lands, one possibility of several.
	Node    string   `json:"node,omitempty"`
	Devices []string `json:"devices,omitempty"`
	// Again is how long it runs there before a taint that it tolerates for a while evicts it once
	// more; nil if none does. Without another suitable device, that repeats until the taint is gone.
	Again *metav1.Duration `json:"again,omitempty"`
	// IfRestarted is true for a pod that keeps running, but would not land again.
	IfRestarted bool `json:"ifRestarted,omitempty"`
	// Reason is why it does not land.
	Reason *Reason `json:"reason,omitempty"`
	// Unchecked names what decides and was not checked, if the verdict is Unknown.
	Unchecked []string `json:"unchecked,omitempty"`
}

// An Answer is what a change does.
type Answer struct {
	// Moves are the pods that leave, in the order in which they do, and those that arrive.
	Moves []Move `json:"moves"`
	// Waiting are pods that wait before the change: where they land after it.
	Waiting []Move `json:"waiting,omitempty"`
	// Least and Most are how many of the moves land; Most has those of which it is unknown.
	Least int `json:"least"`
	Most  int `json:"most"`
	// Notes name what could not be read.
	Notes []string `json:"notes,omitempty"`
	// FeatureGates are those of kube-scheduler that the allocator used.
	FeatureGates gates.Used `json:"featureGates"`
}

// Stranded counts the pods that do not land, or may not.
func (a Answer) Stranded() int {
	return len(a.Moves) - a.count(func(m *Move) bool { return m.Verdict == Lands })
}

// Unknown counts the pods that may land, or not.
func (a Answer) Unknown() int {
	return a.count(func(m *Move) bool { return m.Verdict == Unknown })
}

func (a Answer) count(is func(*Move) bool) (n int) {
	for i := range a.Moves {
		if is(&a.Moves[i]) {
			n++
		}
	}
	return n
}

// samples is how often pods are placed in another order, and on nodes selected by chance.
const samples = 64

// sampled is how many tries of pods on nodes all samples may take.
const sampled = 400_000

// Predict returns what a change does. It takes all evictions to succeed: a PodDisruptionBudget
// delays pods, it does not change where they land.
func (c Cluster) Predict(ctx context.Context, change Change) (Answer, error) {
	before, ready, err := c.ready(ctx)
	if err != nil {
		return Answer{}, err
	}
	p := c.prediction(change, ready)
	maps.Copy(p.base.slow, before.slow)
	if len(p.steps) > 0 {
		if err := p.sample(ctx); err != nil {
			return Answer{}, err
		}
	}
	answer := p.finish()
	answer.FeatureGates = Known(c.Gates).Used()
	if change.Restarted {
		if err := c.restarted(ctx, change, &answer); err != nil {
			return Answer{}, err
		}
	}
	return answer, nil
}

// sample lets the pods land once, and then in other orders.
func (p *prediction) sample(ctx context.Context) error {
	s := p.base.Clone()
	first, err := p.play(ctx, s, nil)
	if err != nil {
		return err
	}
	p.fill(first)
	p.base.slow = s.slow // the same kinds are slow in another order
	tries := 1 + len(p.moves)*len(p.base.nodes)
	for seed := range uint64(max(2, min(samples, sampled/tries))) {
		s = p.base.Clone()
		s.quiet = true
		s.ByChance(seed + 1)
		results, err := p.play(ctx, s, rand.New(rand.NewPCG(seed+1, 2)))
		if err != nil {
			return err
		}
		p.compare(results)
	}
	return nil
}

// A prediction is the work on one change.
type prediction struct {
	base   *Simulation
	answer Answer
	// moves are the pods that are placed, by the UID of the pod that is created.
	moves map[types.UID]*Move
	// left are the devices that a pod had and has to leave.
	left map[types.UID]map[usage.DeviceID]bool
	// taints are those of devices after the change.
	taints map[usage.DeviceID][]resourceapi.DeviceTaint
	steps  []step
	// late are the pods that are placed after all others.
	late []*corev1.Pod
	// waiting are the UIDs of pods that wait already.
	waiting map[types.UID]bool
	order   []types.UID
}

// A step is when pods leave.
type step struct {
	leave, place []*corev1.Pod
}

// ready are the pods that wait although there is a place for them. kube-scheduler does not place them, for what is not
// looked at, such as another scheduler or a volume. They must not keep devices from others.
func (c Cluster) ready(ctx context.Context) (*Simulation, map[types.UID]bool, error) {
	s, ready := c.Begin(), map[types.UID]bool{}
	s.quiet = true
	results, err := s.Place(ctx, waitingPods(c.Pods)...)
	for _, r := range results {
		ready[uidOf(r.Pod)] = r.Lands()
	}
	return s, ready, err
}

func (c Cluster) prediction(change Change, ready map[types.UID]bool) *prediction {
	after := change.After
	p := &prediction{base: after.Begin(), moves: map[types.UID]*Move{}, left: map[types.UID]map[usage.DeviceID]bool{}, waiting: map[types.UID]bool{}}
	p.answer, p.taints = Answer{Moves: []Move{}, Notes: slices.Clone(after.Notes)}, after.taints()
	leaving := union(change.Leaving, newly(after.evicted(p.taints), c.Evicted()))
	p.keep(slices.DeleteFunc(slices.Clone(leaving), func(l Leaving) bool { return slices.Contains(change.Gone, l.Pod.Spec.NodeName) }))
	for _, pod := range after.Pods {
		if after.ends(pod) {
			p.base.Remove(pod)
		}
	}
	first := step{}
	for _, pod := range waitingPods(after.Pods) {
		p.waiting[uidOf(pod)] = true
		p.add(pod, pod, 0)
		if ready[uidOf(pod)] {
			p.late = append(p.late, pod)
		} else {
			first.place = append(first.place, pod)
		}
	}
	for _, pod := range change.Arriving {
		first.place = append(first.place, pod)
		p.add(pod, pod, 0)
	}
	var at time.Duration
	for _, l := range leaving {
		if l.After != at {
			p.steps, first, at = append(p.steps, first), step{}, l.After
		}
		first.leave = append(first.leave, l.Pod)
		next := Again(l.Pod)
		m := p.add(cmp.Or(next, l.Pod), l.Pod, l.After)
		switch {
		case next == nil:
			m.Verdict, m.Reason = Never, &Reason{Kind: NoOwner, Message: "no controller creates it again"}
		case slices.Contains(change.Gone, l.Pod.Spec.NodeName) && m.ownerKind() == "DaemonSet":
			m.Verdict, m.Reason = Never, &Reason{Kind: NodeGone, Message: "its DaemonSet runs it on that node only"}
		default:
			p.left[uidOf(next)] = p.devicesLeft(l.Pod, p.taints, change.Leaving)
			first.place = append(first.place, next)
		}
	}
	if len(first.leave)+len(first.place)+len(p.late) > 0 {
		p.steps = append(p.steps, first)
	}
	return p
}

// union joins pods that leave: the earlier time counts.
func union(a, b []Leaving) []Leaving {
	first := map[types.UID]int{}
	var all []Leaving
	for _, l := range slices.Concat(a, b) {
		if i, seen := first[uidOf(l.Pod)]; seen {
			all[i].After = min(all[i].After, l.After)
			continue
		}
		first[uidOf(l.Pod)] = len(all)
		all = append(all, l)
	}
	return inOrder(all)
}

// newly are the pods that leave because of the change: the others leave without it.
func newly(after, before []Leaving) []Leaving {
	known := map[types.UID]time.Duration{}
	for _, l := range before {
		known[uidOf(l.Pod)] = l.After
	}
	return slices.DeleteFunc(after, func(l Leaving) bool {
		earlier, seen := known[uidOf(l.Pod)]
		return seen && earlier <= l.After
	})
}

// waitingPods are those that kube-scheduler has not found a node for, the most important
// first.
func waitingPods(all []*corev1.Pod) (waiting []*corev1.Pod) {
	for _, pod := range all {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !Finished(pod) && len(pod.Spec.SchedulingGates) == 0 {
			waiting = append(waiting, pod)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *corev1.Pod) int {
		return cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0))
	})
	return waiting
}

// keep holds the claims that are not given back: their pods name them, and another pod is
// created before the last one has ended. Pods of a node that is away end at once.
func (p *prediction) keep(leaving []Leaving) {
	for _, l := range leaving {
		if !atOnce(l.Pod) {
			continue
		}
		for name := range claimsOf(l.Pod) {
			claim := p.base.claims[name]
			if claim == nil || ownedBy(claim, l.Pod) || claim.Status.Allocation == nil {
				continue
			}
			kept := *claim
			kept.Status.ReservedFor = append(slices.Clone(claim.Status.ReservedFor), resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: "kept"})
			p.base.claims[name] = &kept
		}
	}
}

// devicesLeft are the devices that a pod must not have again.
func (p *prediction) devicesLeft(pod *corev1.Pod, taints map[usage.DeviceID][]resourceapi.DeviceTaint, forced []Leaving) map[usage.DeviceID]bool {
	left := map[usage.DeviceID]bool{}
	all := slices.ContainsFunc(forced, func(l Leaving) bool { return uidOf(l.Pod) == uidOf(pod) })
	for name := range claimsOf(pod) {
		claim := p.base.claims[name]
		if claim == nil {
			continue
		}
		for id, result := range resultsOf(claim) {
			left[id] = all || slices.ContainsFunc(taints[id], func(taint resourceapi.DeviceTaint) bool {
				_, ends := endOf(result.Tolerations, taint)
				return ends
			})
		}
	}
	return left
}

func (p *prediction) add(created, left *corev1.Pod, after time.Duration) *Move {
	m := &Move{Namespace: nameOf(left).Namespace, Pod: left.Name, From: left.Spec.NodeName, After: metav1.Duration{Duration: after}}
	if owner := metav1.GetControllerOfNoCopy(left); owner != nil {
		m.Owner = owner.Kind + "/" + owner.Name
	}
	p.moves[uidOf(created)] = m
	p.order = append(p.order, uidOf(created))
	return m
}

func (m *Move) ownerKind() string {
	kind, _, _ := strings.Cut(m.Owner, "/")
	return kind
}

// play lets pods leave and land. With a source of chance, the pods of a step come in another
// order.
func (p *prediction) play(ctx context.Context, s *Simulation, chance *rand.Rand) (map[types.UID]Result, error) {
	last := map[types.UID]Result{}
	var queue []*corev1.Pod
	for _, step := range p.steps {
		for _, pod := range step.leave {
			s.Remove(pod)
		}
		queue = append(queue, step.place...)
		if chance != nil {
			// A pod that may land or not takes a place from others, or does not.
			queue = slices.DeleteFunc(queue, func(pod *corev1.Pod) bool { return p.moves[uidOf(pod)].Verdict == Unknown && chance.IntN(2) == 0 })
			chance.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		}
		results, err := s.Place(ctx, queue...)
		if err != nil {
			return nil, err
		}
		var waiting []*corev1.Pod
		for i, r := range results {
			if last[uidOf(queue[i])] = r; !r.Lands() {
				waiting = append(waiting, queue[i])
			}
		}
		queue = waiting
	}
	results, err := s.Place(ctx, p.late...)
	for _, r := range results {
		last[uidOf(r.Pod)] = r
	}
	return last, err
}

// verdict is that of a result: a claim that is kept has the devices that the pod has to leave.
func (p *prediction) verdict(uid types.UID, r Result) (Verdict, *Reason) {
	if !r.Lands() && len(r.Unknown) == 0 {
		return Waits, &r.Reason
	}
	for _, claim := range r.Claims {
		if !r.Kept(claim) {
			continue
		}
		for id := range resultsOf(claim) {
			if p.left[uid][id] {
				return Never, &Reason{Kind: Kept, Message: fmt.Sprintf("its claim %s is named, and stays allocated to %s", claim.Name, id)}
			}
		}
	}
	switch {
	case r.Reason.Kind == Slow || r.Reason.Kind == TooLarge:
		return Unknown, &r.Reason
	case len(r.Unknown) > 0:
		return Unknown, &Reason{Kind: Unchecked, Message: "not checked: " + strings.Join(r.Unknown, ", ")}
	}
	return Lands, nil
}

// fill writes the first results into the moves.
func (p *prediction) fill(results map[types.UID]Result) {
	for uid, r := range results {
		m := p.moves[uid]
		m.Verdict, m.Reason = p.verdict(uid, r)
		if m.Verdict == Unknown {
			m.Unchecked = r.Unknown
		}
		if m.Verdict == Lands {
			m.Node, m.Again = r.Node, p.again(r)
			for _, claim := range r.Claims {
				m.Devices = append(m.Devices, DeviceNames(claim)...)
			}
		}
	}
	p.answer.Least, p.answer.Most = p.landed(results)
}

// again is how long a pod that lands tolerates the taints of its devices, nil if there is no end.
func (p *prediction) again(r Result) (first *metav1.Duration) {
	for _, claim := range r.Claims {
		for id, result := range resultsOf(claim) {
			for _, taint := range p.taints[id] {
				if end, ends := endOf(result.Tolerations, taint); ends && taint.Effect == resourceapi.DeviceTaintEffectNoExecute && (first == nil || end < first.Duration) {
					first = &metav1.Duration{Duration: end}
				}
			}
		}
	}
	return first
}

// landed counts the moves that land, and with those of which it is unknown.
func (p *prediction) landed(results map[types.UID]Result) (least, most int) {
	for uid, m := range p.moves {
		r, placed := results[uid]
		verdict, _ := p.verdict(uid, r)
		switch {
		case p.waiting[uid] || !placed && m.Verdict != Unknown:
		case m.Verdict == Unknown || verdict == Unknown:
			most++
		case verdict == Lands:
			least, most = least+1, most+1
		}
	}
	return least, most
}

// compare marks the moves with another verdict.
func (p *prediction) compare(results map[types.UID]Result) {
	for uid, r := range results {
		if verdict, _ := p.verdict(uid, r); verdict != p.moves[uid].Verdict {
			p.moves[uid].Contested = true
		}
	}
	least, most := p.landed(results)
	p.answer.Least, p.answer.Most = min(p.answer.Least, least), max(p.answer.Most, most)
}

func (p *prediction) finish() Answer {
	for _, uid := range p.order {
		if p.waiting[uid] {
			p.answer.Waiting = append(p.answer.Waiting, *p.moves[uid])
		} else {
			p.answer.Moves = append(p.answer.Moves, *p.moves[uid])
		}
	}
	slices.SortStableFunc(p.answer.Moves, func(a, b Move) int { return cmp.Compare(a.After.Duration, b.After.Duration) })
	return p.answer
}
