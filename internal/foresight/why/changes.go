package why

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// tainted are the taints that could be removed or tolerated: of one device, then of all.
func (q *question) tainted(_ context.Context, r asked, request *Request) (all []hypothesis) {
	found := q.places(request, because(Tainted))
	if len(found) == 0 {
		return nil
	}
	add := func(places []place) {
		h := hypothesis{cause: Cause{Kind: TaintNotTolerated, Devices: len(found)}, change: func(q *question) { q.untaint(r, places) }}
		h.cause.Message, h.cause.Remedy, h.cause.Command = q.withoutTaints(r, places)
		all = append(all, h)
	}
	for _, p := range found[:min(len(found), tries-1)] {
		add([]place{p})
	}
	if len(found) > 1 {
		add(found)
	}
	return all
}

// withoutTaints describes what removes the taints of devices: a rule is deleted, what the
// driver has set is tolerated.
func (q *question) withoutTaints(r asked, places []place) (message, remedy, command string) {
	var names, commands, remedies []string
	var tolerations []resourceapi.DeviceToleration
	for _, p := range places {
		for i, taint := range p.device.Taints {
			if !q.against(r, taint) {
				continue
			}
			source := q.source(p.slice, p.device.Name, i)
			names = append(names, fmt.Sprintf("%s (%s)", toleration.TaintText(taint), source))
			if source.Kind == tracker.RuleSource {
				commands, remedies = append(commands, q.lift(source.Name)), append(remedies, "remove the taint of DeviceTaintRule "+source.Name)
				continue
			}
			tolerations = append(tolerations, resourceapi.DeviceToleration{Key: taint.Key, Operator: resourceapi.DeviceTolerationOpExists, Effect: taint.Effect})
		}
	}
	message = places[0].String()
	if len(places) > 1 {
		message = plural.Of(len(places), "device")
	}
	message += " would fit, but the claim does not tolerate taint " + list(unique(names), 3)
	commands, remedies = unique(commands), unique(remedies)
	switch {
	case tolerations != nil && q.origin.resource == podResource:
		return message, "the driver must remove its taint", ""
	case tolerations != nil:
		remedies = append(remedies, "tolerate the taint of the driver")
		commands = append(commands, q.origin.edit(operation{"add", r.path + "/tolerations", slices.Concat(r.tolerations, slices.Compact(tolerations))}))
	}
	if len(commands) > 5 {
		return message, list(remedies, 3), ""
	}
	return message, list(remedies, 3), joinCommands(commands)
}

func unique(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// lift returns the command that ends the taint of a rule.
func (q *question) lift(rule string) string {
	if stored := q.cluster.View.Rule(rule); stored != nil && q.cluster.Lift != nil {
		if command := q.cluster.Lift(stored); command != "" {
			return command
		}
	}
	return "kubectl delete devicetaintrule " + word(rule)
}

// untaint removes the taints that a request does not tolerate.
func (q *question) untaint(r asked, places []place) {
	named := map[string]map[string]bool{}
	for _, p := range places {
		if named[p.slice.Name] == nil {
			named[p.slice.Name] = map[string]bool{}
		}
		named[p.slice.Name][p.device.Name] = true
	}
	q.slices = slices.Clone(q.slices)
	for i, s := range q.slices {
		if named[s.Name] == nil {
			continue
		}
		changed := *s
		changed.Spec.Devices = slices.Clone(s.Spec.Devices)
		for j := range changed.Spec.Devices {
			if d := &changed.Spec.Devices[j]; named[s.Name][d.Name] {
				d.Taints = slices.DeleteFunc(slices.Clone(d.Taints), func(t resourceapi.DeviceTaint) bool { return q.against(r, t) })
			}
		}
		q.slices[i] = &changed
	}
}

// incomplete are the pools that the driver could complete.
func (q *question) incomplete(_ context.Context, _ asked, request *Request) (all []hypothesis) {
	found := q.places(request, because(PoolIncomplete))
	seen := map[placement.PoolID]bool{}
	for _, p := range found {
		id := placement.PoolOf(p.slice)
		if seen[id] {
			continue
		}
		seen[id] = true
		pool := q.pools[id]
		h := hypothesis{cause: Cause{Kind: IncompletePool, Devices: len(found)}, change: func(q *question) { q.complete(id) }}
		h.cause.Message = fmt.Sprintf("pool %s of driver %s is incomplete: %d of %s published", id.Name, id.Driver, pool.Slices, plural.Of(int(pool.Total), "slice"))
		h.cause.Remedy = fmt.Sprintf("wait until the driver publishes the missing slices; if it does not, restart its pod on %s", where(p.slice, p.device))
		if pool.Invalid != "" {
			h.cause.Message = fmt.Sprintf("pool %s of driver %s %s", id.Name, id.Driver, pool.Invalid)
			h.cause.Remedy = "the driver must publish each device and counter set once, and the counters that devices consume"
		}
		all = append(all, h)
	}
	return all
}

func (q *question) complete(id placement.PoolID) {
	q.pools = maps.Clone(q.pools)
	pool := q.pools[id]
	pool.Total = pool.Slices
	q.pools[id] = pool
	q.slices = slices.Clone(q.slices)
	for i, s := range q.slices {
		if s.Spec.Driver == id.Driver && s.Spec.Pool.Name == id.Name && s.Spec.Pool.Generation == pool.Generation {
			changed := *s
			changed.Spec.Pool.ResourceSliceCount = pool.Slices
			q.slices[i] = &changed
		}
	}
}

// elsewhere are the conditions of the pod for its node.
func (q *question) elsewhere(_ context.Context, r asked, request *Request) (all []hypothesis) {
	away := q.places(request, because(NodeMismatch))
	if q.pod == nil || len(away) == 0 {
		return nil
	}
	free := 0
	for _, p := range away {
		if reason, _ := q.available(r, p.slice, p.device); reason == Fits {
			free++
		}
	}
	here := len(q.places(request, because(Fits)))
	which := "none"
	if here > 0 {
		which = fmt.Sprintf("only %d", here)
	}
	add := func(what, remedy string, change func(*corev1.PodSpec)) {
		h := hypothesis{cause: Cause{Kind: WrongNode, Devices: len(away)}, change: func(q *question) {
			pod := q.pod.DeepCopy()
			change(&pod.Spec)
			if nodes, err := q.runsOn(pod); err == nil {
				q.nodes = nodes
			}
		}}
		h.cause.Message = fmt.Sprintf("%d of %d %s devices are free, %s on the nodes where the pod may run (%s)", free+here, request.Matching, noun(r), which, what)
		editNodes(&h.cause, q.pod, remedy, change)
		all = append(all, h)
	}
	selector, affinity := len(q.pod.Spec.NodeSelector) > 0, requiredAffinity(q.pod)
	if selector {
		add("nodeSelector "+labelText(q.pod.Spec.NodeSelector), "remove the node selector", func(s *corev1.PodSpec) { s.NodeSelector = nil })
	}
	if affinity {
		add("its node affinity", "remove the node affinity", func(s *corev1.PodSpec) { s.Affinity.NodeAffinity = nil })
	}
	if selector && affinity {
		add("its node selector and affinity", "remove the node selector and affinity", func(s *corev1.PodSpec) { s.NodeSelector, s.Affinity.NodeAffinity = nil, nil })
	}
	if !selector && !affinity {
		const remedy = "delete the pod and those claims"
		add("the devices of its other claims are there", remedy, func(s *corev1.PodSpec) { s.ResourceClaims = nil })
		all[0].cause.Remedy, all[0].cause.Command = remedy, ""
	}
	return all
}

func requiredAffinity(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// patched is the question with ResourceSlicePatches, if there are some that kube-scheduler
// does not apply.
func (q *question) patched() []hypothesis {
	if q.cluster.Patched {
		return nil
	}
	var merged []*resourceapi.ResourceSlice
	differ := false
	for _, slice := range q.cluster.View.List(nil) {
		merged = append(merged, slice)
		differ = differ || slice != q.cluster.View.Stored(slice.Name)
	}
	if !differ {
		return nil
	}
	h := hypothesis{cause: Cause{Kind: PatchNotApplied}, change: func(q *question) { q.slices = merged }}
	h.describe = func(c *Cause, found allocation) {
		c.Message = fmt.Sprintf("%s on %s is suitable with the ResourceSlicePatches, which kube-scheduler does not apply", found.results[0].Devices.Results[0].Device, found.node)
		c.Remedy = "let the controller write the patched values into the slices, or let dra-steward-scheduler apply them: patches.mode in the values of the chart"
	}
	return []hypothesis{h}
}

// tooMany are smaller numbers of devices.
func (q *question) tooMany(_ context.Context, r asked, request *Request) (all []hypothesis) {
	if r.count < 2 || request.Matching == 0 {
		return nil
	}
	highest := min(r.count-1, int64(max(request.Fitting, 1)))
	for n := highest; n > 0 && highest-n < tries; n-- {
		h := hypothesis{cause: Cause{Kind: CountTooLarge, Devices: request.Fitting}, change: func(q *question) {
			q.claim = q.claim.DeepCopy()
			wanted, _, _ := r.in(q.claim)
			*wanted = n
		}}
		h.describe = func(c *Cause, found allocation) {
			c.Message = fmt.Sprintf("request %s asks for %d devices; at most %d can be allocated on one node (%s)", r.name, r.count, n, found.node)
			c.Remedy = fmt.Sprintf("request %d", n)
			q.editCount(c, r, n)
		}
		all = append(all, h)
	}
	return all
}

// editCount adds the command for another count: in the claim, or in the containers of a
// pod with extended resources.
func (q *question) editCount(c *Cause, r asked, n int64) {
	if q.origin.resource != podResource {
		c.Command = q.origin.edit(operation{"replace", r.path + "/count", n})
		return
	}
	editPod(c, q.pod, c.Remedy, func(spec *corev1.PodSpec) {
		q.extended[r.request].set(spec, *resource.NewQuantity(n, resource.DecimalSI))
	})
}

// constraint is the question without one of the constraints of the claim.
func (q *question) constraint(i int) []hypothesis {
	constraint := q.claim.Spec.Devices.Constraints[i]
	h := hypothesis{cause: Cause{Kind: MatchAttribute, Remedy: "remove the constraint"}, change: func(q *question) {
		q.claim = q.claim.DeepCopy()
		q.claim.Spec.Devices.Constraints = slices.Delete(q.claim.Spec.Devices.Constraints, i, i+1)
	}}
	name, attribute := "matchAttribute", constraint.MatchAttribute
	if constraint.DistinctAttribute != nil {
		h.cause.Kind, name, attribute = DistinctAttribute, "distinctAttribute", constraint.DistinctAttribute
	}
	if attribute == nil {
		return nil
	}
	h.cause.Command = q.origin.edit(operation{Op: "remove", Path: pointer("devices", "constraints", i)})
	h.describe = func(c *Cause, found allocation) {
		c.Message = fmt.Sprintf("constraint %s %s forbids %s", name, *attribute, q.combination(constraint, string(*attribute), found.results[0]))
	}
	return []hypothesis{h}
}

// combination names the devices that a constraint is about, with their values.
func (q *question) combination(constraint resourceapi.DeviceConstraint, attribute string, found resourceapi.AllocationResult) string {
	var devices, values []string
	domain, name, _ := strings.Cut(attribute, "/")
	for _, result := range found.Devices.Results {
		request, _, _ := strings.Cut(result.Request, "/")
		if len(constraint.Requests) > 0 && !slices.Contains(constraint.Requests, result.Request) && !slices.Contains(constraint.Requests, request) {
			continue
		}
		p, ok := q.find(idOfResult(result))
		if !ok {
			continue
		}
		devices = append(devices, p.device.Name)
		value, ok := term{domain: domain, name: name}.value(p.slice.Spec.Driver, p.device)
		if !ok {
			value = "missing"
		}
		values = append(values, value)
	}
	what := "the combination "
	if len(devices) == 2 {
		what = "the pair "
	}
	return fmt.Sprintf("%s%s: %s is %s", what, strings.Join(devices[:min(len(devices), 4)], ", "), name, strings.Join(values[:min(len(values), 4)], ", "))
}
