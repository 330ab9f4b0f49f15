package taints

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Objects are those of a cluster that an impact is about.
type Objects struct {
	Claims  []*resourceapi.ResourceClaim
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Published are the devices of each driver.
	Published map[string]int
	// Thresholds are those of the site.
	Thresholds Thresholds
}

// Thresholds are what may be hit without an acknowledgement.
type Thresholds struct {
	guard.Thresholds
	// From says where they are from.
	From string `json:"from"`
}

// Index is the index of the objects.
func (o Objects) Index() *usage.Index {
	index := &usage.Index{}
	for _, claim := range o.Claims {
		index.SetClaim(claim)
	}
	for _, pod := range o.Pods {
		index.SetPod(pod)
	}
	for _, budget := range o.Budgets {
		index.SetBudget(budget)
	}
	return index
}

// A PodImpact lists the pods that a taint evicts.
type PodImpact struct {
	Selector *resourceapi.DeviceTaintSelector `json:"selector"`
	Taint    resourceapi.DeviceTaint          `json:"taint"`
	Counts   guard.Counts                     `json:"counts"`
	Pods     []Pod                            `json:"pods"`
	Budgets  []usage.BudgetImpact             `json:"budgets"`
	// Tolerating are the claims that tolerate the taint for good.
	Tolerating []types.NamespacedName `json:"tolerating"`
	// Siblings are published devices that share counters with the selected ones and are not
	// selected, such as other partitions of the same GPU: pods can still use them.
	Siblings []string `json:"siblings,omitempty"`
	// Thresholds are those that it was held against, Exceeded are those that it is above.
	Thresholds Thresholds `json:"thresholds"`
	Exceeded   []string   `json:"exceeded"`

	summary guard.Impact
}

// A Pod is one that a taint evicts.
type Pod struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Node      string   `json:"node"`
	Owner     string   `json:"owner"`
	Devices   []string `json:"devices"`
	Budgets   []string `json:"budgets"`
	// ToleratedUntil is when its time on the devices is over; nil is at once.
	ToleratedUntil *metav1.Time `json:"toleratedUntil"`
}

// NewPodImpact returns what a taint affects: as if its effect was NoExecute from now on, if
// it has no time of its own.
func NewPodImpact(o Objects, selector *resourceapi.DeviceTaintSelector, taint resourceapi.DeviceTaint, now time.Time) PodImpact {
	taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	if taint.TimeAdded == nil {
		taint.TimeAdded = &metav1.Time{Time: now}
	}
	index := o.Index()
	impact := index.Impact(selector, &taint)
	r := PodImpact{Selector: selector, Taint: taint, Budgets: impact.Budgets, Tolerating: impact.Tolerating, Thresholds: o.Thresholds}
	r.summary = impact.Summary(func(driver string) int { return o.Published[driver] })
	r.Counts = r.summary.Counts
	for _, over := range r.Thresholds.Exceeded(r.Counts, nil) {
		r.Exceeded = append(r.Exceeded, over.String())
	}
	hit := map[usage.DeviceID]bool{}
	for _, id := range impact.Devices {
		hit[id] = true
	}
	until := map[types.NamespacedName]*metav1.Time{}
	for _, name := range impact.Claims {
		for _, pod := range index.Pods(name.Namespace, name.Name) {
			of := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			at := toleratedUntil(index.Claim(name.Namespace, name.Name), hit, taint)
			if earlier, known := until[of]; !known || earlier != nil && (at == nil || at.Before(earlier)) {
				until[of] = at
			}
		}
	}
	r.addPods(o, index, impact, hit, until)
	return r
}

// Together is what the taint exceeds on the devices of all selectors: the guard counts evictions that begin within
// minutes together.
func (o Objects) Together(selectors []*resourceapi.DeviceTaintSelector, taint resourceapi.DeviceTaint) (over []string) {
	taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	index, devices := o.Index(), map[usage.DeviceID]bool{}
	for _, selector := range selectors {
		for _, id := range index.Allocated(selector) {
			devices[id] = true
		}
	}
	impact := index.ImpactOn(maps.Keys(devices), &taint).Summary(func(driver string) int { return o.Published[driver] })
	for _, one := range o.Thresholds.Exceeded(impact.Counts, nil) {
		over = append(over, "all targets together: "+one.String())
	}
	return over
}

// addPods adds the pods of an impact.
func (r *PodImpact) addPods(o Objects, index *usage.Index, impact usage.Impact, hit map[usage.DeviceID]bool, until map[types.NamespacedName]*metav1.Time) {
	for _, pod := range o.Pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		if _, is := slices.BinarySearchFunc(impact.Pods, name, compareNames); !is {
			continue
		}
		row := Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Owner: owner(pod), ToleratedUntil: until[name]}
		for _, budget := range index.Budgets(pod) {
			row.Budgets = append(row.Budgets, budget.Name)
		}
		for _, id := range index.Devices(pod.Namespace, pod.Name) {
			if hit[id] {
				row.Devices = append(row.Devices, id.String())
			}
		}
		r.Pods = append(r.Pods, row)
	}
	slices.SortFunc(r.Pods, func(a, b Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
}

func compareNames(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		return strings.Compare(a.Namespace, b.Namespace)
	}
	return strings.Compare(a.Name, b.Name)
}

// maxSeconds is the longest time that fits into a duration.
const maxSeconds = int64(1<<63-1) / int64(time.Second)

// toleratedUntil is the earliest end of a claim's time on the devices that are hit; nil if
// one of them is not tolerated at all.
func toleratedUntil(claim *resourceapi.ResourceClaim, hit map[usage.DeviceID]bool, taint resourceapi.DeviceTaint) *metav1.Time {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	// As the impact of the taint (pkg/usage) reads an empty effect.
	evaluator, shortest := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}, maxSeconds
	for _, result := range claim.Status.Allocation.Devices.Results {
		if !hit[usage.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}] {
			continue
		}
		period := evaluator.Evaluate(result.Tolerations, taint)
		if !period.Tolerated {
			return nil
		}
		if period.Seconds != nil {
			shortest = min(shortest, *period.Seconds)
		}
	}
	return &metav1.Time{Time: taint.TimeAdded.Add(time.Duration(shortest) * time.Second)}
}

// owner is the controller of a pod, such as ReplicaSet/web; "-" if none replaces it.
func owner(pod *corev1.Pod) string {
	if controller := metav1.GetControllerOf(pod); controller != nil {
		return controller.Kind + "/" + controller.Name
	}
	return "-"
}

// WriteText writes the report for people.
func (r PodImpact) WriteText(out io.Writer, headers bool) error {
	table := printable.NewTable(out, 2)
	if headers && len(r.Pods) > 0 {
		printable.Printf(table, "NAMESPACE\tPOD\tOWNER\tNODE\tDEVICES\tBUDGET\tTOLERATED UNTIL\n")
	}
	for _, pod := range r.Pods {
		until := "not tolerated"
		if pod.ToleratedUntil != nil {
			until = pod.ToleratedUntil.UTC().Format(time.RFC3339)
		}
		printable.Printf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, pod.Owner, pod.Node,
			strings.Join(pod.Devices, ","), orDash(pod.Budgets), until)
	}
	printable.Printf(table, "%s\n", r.summary)
	if len(r.Exceeded) > 0 {
		printable.Printf(table, "refused by the guard: %s (%s); drain the devices instead, or acknowledge the impact with %s\n", strings.Join(r.Exceeded, ", "), r.Thresholds.From, guard.CeilingOf(r.Counts).Annotate())
	}
	if n := len(r.Siblings); n > 0 {
		printable.Printf(table, "%s that share counters with the selected ones can still be allocated: %s; --with-partitions takes them along\n", plural.Of(n, "device"), plural.List(r.Siblings, 8, n))
	}
	if n := len(r.Tolerating); n > 0 {
		printable.Printf(table, "tolerated without limit by %d more, first %s\n", n, r.Tolerating[0])
	}
	return table.Flush()
}

func orDash(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}
