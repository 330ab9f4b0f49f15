package reaction

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A Pin makes a claim get one device and no other.
type Pin struct {
	// Expression is a CEL expression that is true for the device alone.
	Expression string
	// Node is the node of the device; empty if it is not bound to one.
	Node string
	// Tolerations are for its taints: the cordon of its drain, and the cause.
	Tolerations []resourceapi.DeviceToleration
}

// PinOf pins a drained device. CEL sees neither pools nor names of devices, so that an attribute must
// tell the device from all others of its driver that pods on its node can get.
func PinOf(r *v1alpha1.DeviceReaction, d *v1alpha1.DeviceDrain, view *tracker.Snapshot) (Pin, error) {
	name := d.Spec.Devices[0]
	device, published := view.Device(name.Driver, name.Pool, name.Device)
	if !published {
		return Pin{}, errors.New("no slice has the device")
	}
	pin := Pin{Node: NodeOf(device)}
	var err error
	if pin.Tolerations, err = tolerationsOf(r, d, device, view); err != nil {
		return Pin{}, err
	}
	id, value, found := uniqueAttribute(device, pin.Node, view)
	if !found {
		return Pin{}, fmt.Errorf("no attribute tells the device from the other devices of driver %s that pods on its node can get: its driver must publish one, such as a UUID, or a ResourceSlicePatch that is materialized must add one", name.Driver)
	}
	domain, key, is := strings.Cut(id, "/")
	if !is {
		domain, key = name.Driver, id
	}
	attributes := "device.attributes[" + strconv.Quote(domain) + "]"
	pin.Expression = fmt.Sprintf("device.driver == %s && %s in %s && %s[%s] == %s", strconv.Quote(name.Driver), strconv.Quote(key), attributes, attributes, strconv.Quote(key), value)
	return pin, nil
}

// NodeOf is the node of a device, empty if it is not bound to one.
func NodeOf(device tracker.Device) string { return nodeIn(device.Slice(), device.Published()) }

// nodeIn is the node of a device of a slice.
func nodeIn(slice *resourceapi.ResourceSlice, device *resourceapi.Device) string {
	return ptr.Deref(cmp.Or(device.NodeName, slice.Spec.NodeName), "")
}

// tolerationsOf are those that a claim needs for a device: its cordon, whose value is the name of the
// drain, and taints that are the cause. Any other taint is a decision of its author.
func tolerationsOf(r *v1alpha1.DeviceReaction, d *v1alpha1.DeviceDrain, device tracker.Device, view *tracker.Snapshot) (tolerations []resourceapi.DeviceToleration, err error) {
	cordon := drain.Taint(d)
	for _, taint := range device.Taints() {
		ours := taint.Key == cordon.Key && taint.Value == cordon.Value && taint.Effect == cordon.Effect
		switch {
		case taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && taint.Effect != resourceapi.DeviceTaintEffectNoExecute:
			continue
		case !ours && !cordonOfReaction(r, taint, view) && (r.Spec.When.Taint == nil || !matches(r.Spec.When.Taint, taint, view)):
			return nil, fmt.Errorf("the taint %s of %s %s keeps the proof off the device", toleration.TaintText(taint.DeviceTaint), taint.Source.Kind, taint.Source.Name)
		case len(tolerations) == resourceapi.DeviceTolerationsMaxLength:
			return nil, fmt.Errorf("the device has more than %d taints", resourceapi.DeviceTolerationsMaxLength)
		}
		toleration := resourceapi.DeviceToleration{Key: taint.Key, Operator: resourceapi.DeviceTolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
		if !slices.Contains(tolerations, toleration) {
			tolerations = append(tolerations, toleration)
		}
	}
	if !slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool { return t.Key == cordon.Key && t.Value == cordon.Value }) {
		return nil, errors.New("the device is not cordoned yet")
	}
	return tolerations, nil
}

// cordonOfReaction reports whether a taint is the cordon of another drain of a reaction, which takes the device along as a
// partition.
func cordonOfReaction(r *v1alpha1.DeviceReaction, taint tracker.Taint, view *tracker.Snapshot) bool {
	if taint.Source.Kind != tracker.RuleSource {
		return false
	}
	rule := view.Rule(taint.Source.Name)
	if rule == nil {
		return false
	}
	of, _ := drain.OwnerOf(rule)
	return of != "" && slices.ContainsFunc(r.Status.Devices, func(d v1alpha1.ReactionDevice) bool { return d.Drain == of })
}

// uniqueAttribute returns an attribute whose value only one device has, among all that pods on its
// node can get, with the value as CEL writes it. kube-scheduler sees the slices as the API server has them,
// dra-steward-scheduler sees them with patches: the value is unique to both.
func uniqueAttribute(device tracker.Device, node string, view *tracker.Snapshot) (id, value string, found bool) {
	mine := ownAttributes(device, view)
	for _, merged := range view.List(nil) {
		if merged.Spec.Driver != device.Driver() {
			continue
		}
		stored := view.Stored(merged.Name)
		for i := range merged.Spec.Devices {
			other := &merged.Spec.Devices[i]
			at, itself := nodeIn(merged, other), merged.Spec.Pool.Name == device.Pool() && other.Name == device.Name()
			if itself || node != "" && at != "" && at != node {
				continue
			}
			without(mine, other, device.Driver())
			without(mine, &stored.Spec.Devices[i], device.Driver())
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(mine), preferred) {
		return name, mine[name], true
	}
	return "", "", false
}

// ownAttributes are the attributes of a device that have the same value with patches as in the API server.
func ownAttributes(device tracker.Device, view *tracker.Snapshot) map[string]string {
	all := view.Stored(device.Slice().Name).Spec.Devices
	at := slices.IndexFunc(all, func(d resourceapi.Device) bool { return d.Name == device.Name() })
	mine, stored := literals(device.Merged(), device.Driver()), literals(&all[at], device.Driver())
	maps.DeleteFunc(mine, func(name, literal string) bool { return stored[name] != literal })
	return mine
}

// literals are the attributes of a device by their names with domains, as CEL writes the values.
func literals(device *resourceapi.Device, driver string) map[string]string {
	all := map[string]string{}
	for name, attribute := range device.Attributes {
		if literal := literalOf(attribute); literal != "" {
			all[qualified(string(name), driver)] = literal
		}
	}
	return all
}

// without takes away the attributes of which another device has the value.
func without(mine map[string]string, other *resourceapi.Device, driver string) {
	for name, attribute := range other.Attributes {
		if name := qualified(string(name), driver); mine[name] != "" && mine[name] == literalOf(attribute) {
			delete(mine, name)
		}
	}
}

// qualified is the name of an attribute with its domain.
func qualified(name, driver string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return driver + "/" + name
}

// preferred orders the names of attributes: a UUID names a device for longer than an index.
func preferred[T ~string](a, b T) int {
	rank := func(name T) int {
		if strings.Contains(strings.ToLower(string(name)), "uuid") {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// literalOf is the value of an attribute in CEL, empty for a kind that names no device.
func literalOf(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return strconv.Quote(*a.StringValue)
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	}
	return ""
}
