package reaction

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// selectionCost bounds the evaluation of the selector of a reaction in one step.
const selectionCost = 10 * patch.MaxCost

// Sources are where causes are found. A function that is nil does not know yet.
type Sources struct {
	View *tracker.Snapshot
	// Tainted are the devices of the view that have taints, as [TaintedDevices] finds them; nil looks
	// for them in each call. Reactions of one view share it.
	Tainted func() []tracker.Device
	// Nodes have their conditions.
	Nodes func() []*corev1.Node
	// Health is what pods and claims report.
	Health func() *health.Records
	// Bindings are the outcomes of binding conditions.
	Bindings func() *Bindings
}

// Causes are the selected devices that have the cause of a reaction.
type Causes struct {
	// Sick are the devices, with a text such as "taint example.com/xid=79:NoSchedule of the driver".
	Sick map[v1alpha1.DeviceName]string
	// Healthy reports whether a published device that is not sick is healthy. nil is always.
	Healthy func(v1alpha1.DeviceName) bool
	// Unknown says why the causes are not known; empty if they are.
	Unknown string
}

// Find finds the causes of a reaction.
func Find(r *v1alpha1.DeviceReaction, from Sources, compiler *patch.Compiler) (found Causes) {
	when := r.Spec.When
	switch {
	case when.Taint != nil:
		found.Sick = tainted(when.Taint, from)
	case when.NodeCondition != nil && from.Nodes == nil:
		return Causes{Unknown: "nodes are not read yet"}
	case when.NodeCondition != nil:
		found.Sick, found.Unknown = ofCondition(when.NodeCondition, from.Nodes(), from.View, compiler)
	case when.DeviceHealth != nil && from.Health == nil:
		return Causes{Unknown: "the health in the status of pods is not read"}
	case when.DeviceHealth != nil:
		records := from.Health()
		found.Sick = reported(corev1.ResourceHealthStatus(cmp.Or(when.DeviceHealth.Status, string(corev1.ResourceHealthStatusUnhealthy))), records, from.View)
		found.Healthy = func(name v1alpha1.DeviceName) bool { return records.Healthy(usage.DeviceID(name)) }
	case when.BindingConditions != nil && from.Bindings == nil:
		return Causes{Unknown: "the binding conditions of claims are not read"}
	case when.BindingConditions != nil:
		bindings := from.Bindings()
		found.Sick = failedBinding(when.BindingConditions, bindings)
		found.Healthy = func(name v1alpha1.DeviceName) bool { return bindings.Bound[name] }
	default:
		return Causes{Unknown: "spec.when has no cause: set taint, nodeCondition, deviceHealth or bindingConditions"}
	}
	if found.Unknown != "" {
		return Causes{Unknown: found.Unknown}
	}
	found.Sick, found.Unknown = selected(r.Spec.Selector, found.Sick, from.View, compiler)
	return found
}

// reported are the published devices with a health.
func reported(want corev1.ResourceHealthStatus, records *health.Records, view *tracker.Snapshot) map[v1alpha1.DeviceName]string {
	sick := map[v1alpha1.DeviceName]string{}
	for id, record := range records.All() {
		if _, published := view.Device(id.Driver, id.Pool, id.Device); record.Health != want || !published {
			continue
		}
		text := fmt.Sprintf("%s reports %s", record.From, record.Health)
		if record.Message != "" {
			text += ": " + record.Message
		}
		sick[v1alpha1.DeviceName(id)] = text
	}
	return sick
}

// theDriver is how causes name the source of a taint that is in a slice.
const theDriver = "the driver"

// TaintedDevices are the devices of a view that have taints.
func TaintedDevices(view *tracker.Snapshot) (all []tracker.Device) {
	for device := range view.Devices() {
		if len(device.Taints()) > 0 {
			all = append(all, device)
		}
	}
	return all
}

// tainted are the devices with a taint. The taints of our own drains are no cause.
func tainted(want *v1alpha1.CauseTaint, from Sources) map[v1alpha1.DeviceName]string {
	if from.Tainted == nil {
		from.Tainted = func() []tracker.Device { return TaintedDevices(from.View) }
	}
	sick := map[v1alpha1.DeviceName]string{}
	for _, device := range from.Tainted() {
		for _, taint := range device.Taints() {
			if !matches(want, taint, from.View) {
				continue
			}
			source := theDriver
			if taint.Source.Kind == tracker.RuleSource {
				source = "DeviceTaintRule " + taint.Source.Name
			}
			sick[nameOf(device)] = fmt.Sprintf("taint %s of %s", toleration.TaintText(taint.DeviceTaint), source)
			break
		}
	}
	return sick
}

func matches(want *v1alpha1.CauseTaint, taint tracker.Taint, view *tracker.Snapshot) bool {
	ofRule := taint.Source.Kind == tracker.RuleSource
	switch {
	case taint.Key != want.Key, want.Value != nil && *want.Value != taint.Value, want.Effect != "" && want.Effect != string(taint.Effect):
		return false
	case want.From == v1alpha1.TaintFromDriver && ofRule, want.From == v1alpha1.TaintFromRule && !ofRule:
		return false
	case !ofRule:
		return true
	}
	rule := view.Rule(taint.Source.Name)
	if rule == nil {
		return true
	}
	owner, _ := drain.OwnerOf(rule)
	return owner == ""
}

func nameOf(device tracker.Device) v1alpha1.DeviceName {
	return v1alpha1.DeviceName{Driver: device.Driver(), Pool: device.Pool(), Device: device.Name()}
}

// A nodeCause is a condition that a node has, and the text about it.
type nodeCause struct {
	condition *corev1.NodeCondition
	text      string
}

// conditioned are the nodes that have a condition.
func conditioned(want *v1alpha1.CauseNodeCondition, nodes []*corev1.Node) map[string]nodeCause {
	found := map[string]nodeCause{}
	for _, node := range nodes {
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if string(c.Type) != want.Type || string(c.Status) != cmp.Or(want.Status, "True") || want.Reason != "" && want.Reason != c.Reason {
				continue
			}
			found[node.Name] = nodeCause{c, fmt.Sprintf("condition %s=%s (%s) of node %s", c.Type, c.Status, cmp.Or(c.Reason, "no reason"), node.Name)}
		}
	}
	return found
}

// ofCondition are the devices of the nodes that have a condition, of each node those that the
// expression selects.
func ofCondition(want *v1alpha1.CauseNodeCondition, nodes []*corev1.Node, view *tracker.Snapshot, compiler *patch.Compiler) (sick map[v1alpha1.DeviceName]string, unknown string) {
	sick = map[v1alpha1.DeviceName]string{}
	causes := conditioned(want, nodes)
	if len(causes) == 0 {
		return sick, ""
	}
	concerned := map[v1alpha1.DeviceName]onNode{}
	for device := range view.Devices() {
		if cause, is := causes[NodeOf(device)]; is {
			concerned[nameOf(device)] = onNode{device.Published(), cause}
		}
	}
	if want.Devices != "" {
		if unknown = selectOf(want.Devices, concerned, compiler); unknown != "" {
			return nil, unknown
		}
	}
	for name, on := range concerned {
		sick[name] = on.cause.text
	}
	return sick, ""
}

// An onNode is a device whose node has a condition.
type onNode struct {
	*resourceapi.Device
	cause nodeCause
}

// selectOf keeps the devices that the expression of a cause selects. The compiler of the selectors of
// claims evaluates it, within their limits; the condition is in attributes of a domain of its own.
func selectOf(expression string, devices map[v1alpha1.DeviceName]onNode, compiler *patch.Compiler) string {
	selector := &v1alpha1.DrainSelector{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}
	found := compiler.Select(selector, withCondition(devices), selectionCost)
	switch {
	case len(found.Problems) > 0:
		return "spec.when.nodeCondition.devices: " + found.Problems[0].Message
	case found.More:
		return "spec.when.nodeCondition.devices exceeds its limit of cost"
	case found.Failures.Devices > 0:
		return fmt.Sprintf("spec.when.nodeCondition.devices fails for %s, first %s: test that the attribute exists", plural.Of(found.Failures.Devices, "device"), found.Failures.First)
	}
	is := map[v1alpha1.DeviceName]bool{}
	for _, name := range found.Devices {
		is[name] = true
	}
	maps.DeleteFunc(devices, func(name v1alpha1.DeviceName, _ onNode) bool { return !is[name] })
	return ""
}

// withCondition are slices of devices that have the condition of their node as attributes.
func withCondition(devices map[v1alpha1.DeviceName]onNode) iter.Seq[*resourceapi.ResourceSlice] {
	type pool struct{ driver, name string }
	pools := map[pool]*resourceapi.ResourceSlice{}
	for name, device := range devices {
		of := pool{name.Driver, name.Pool}
		if pools[of] == nil {
			pools[of] = &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: name.Driver, Pool: resourceapi.ResourcePool{Name: name.Pool}}}
		}
		with, c := *device.Device, device.cause.condition
		with.Attributes = maps.Clone(with.Attributes)
		if with.Attributes == nil {
			with.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		}
		for key, value := range map[string]string{"type": string(c.Type), "reason": c.Reason, "message": c.Message} {
			with.Attributes[resourceapi.QualifiedName(v1alpha1.ConditionDomain+"/"+key)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
		pools[of].Spec.Devices = append(pools[of].Spec.Devices, with)
	}
	return maps.Values(pools)
}

// selected are the sick devices that a selector selects. It is evaluated on the slices with sick
// devices only.
func selected(selector *v1alpha1.DrainSelector, sick map[v1alpha1.DeviceName]string, view *tracker.Snapshot, compiler *patch.Compiler) (map[v1alpha1.DeviceName]string, string) {
	if selector == nil || len(sick) == 0 {
		return sick, ""
	}
	found := compiler.Select(selector, slicesOf(sick, view), selectionCost)
	switch {
	case len(found.Problems) > 0:
		return nil, "spec.selector: " + found.Problems[0].Message
	case found.Failures.Devices > 0:
		return nil, fmt.Sprintf("spec.selector fails for %s, first %s: name the driver, or test that the attribute exists", plural.Of(found.Failures.Devices, "device"), found.Failures.First)
	case found.More:
		return nil, "spec.selector is too expensive to evaluate: name the driver or the pool"
	}
	chosen := map[v1alpha1.DeviceName]string{}
	for _, name := range found.Devices {
		if cause, is := sick[name]; is {
			chosen[name] = cause
		}
	}
	return chosen, ""
}

// slicesOf are the published slices of the pools of devices.
func slicesOf(devices map[v1alpha1.DeviceName]string, view *tracker.Snapshot) iter.Seq[*resourceapi.ResourceSlice] {
	type pool struct{ driver, name string }
	pools := map[pool]bool{}
	for name := range devices {
		pools[pool{name.Driver, name.Pool}] = true
	}
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		for _, p := range slices.SortedFunc(maps.Keys(pools), func(a, b pool) int {
			return cmp.Or(strings.Compare(a.driver, b.driver), strings.Compare(a.name, b.name))
		}) {
			for _, slice := range view.PublishedByPool(p.driver, p.name) {
				if !yield(slice) {
					return
				}
			}
		}
	}
}
