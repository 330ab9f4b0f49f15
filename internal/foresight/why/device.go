package why

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// request checks every device for a request.
func (q *question) request(ctx context.Context, r asked) Request {
	report := Request{Name: r.name, Class: r.class, Wanted: r.count}
	class := q.cluster.View.Class(r.class)
	if class == nil {
		report.Reason = ClassNotFound
		report.Message = fmt.Sprintf("there is no DeviceClass %q%s", r.class, didYouMean(r.class, q.classNames()))
		if q.cluster.NoClasses {
			report.Message = fmt.Sprintf("DeviceClass %s cannot be read: the devices that it selects are unknown", r.class)
		}
		return report
	}
	fitting, selected := map[string]int{}, 0
	var parts []counts
	report.Devices, parts = q.devices(ctx, r, class)
	for _, part := range parts {
		for node, n := range part.fitting {
			fitting[node] += n
		}
		report.Matching, selected = report.Matching+part.matching, selected+part.selected
	}
	best := ""
	for _, node := range sorted(fitting) {
		best, report.Fitting = node, fitting[node]
		break
	}
	switch {
	case selected == 0:
		report.Reason, report.Message = NoDevice, fmt.Sprintf("no ResourceSlice has a device that DeviceClass %s selects", r.class)
	case report.Fitting == 0 || int64(report.Fitting) < r.count:
		report.Reason, report.Message = Count, short(r, report.Fitting, best)
	}
	return report
}

// counts are those of the devices of some slices: those that match the selectors, those of the class, and by node those
// that fit.
type counts struct {
	matching, selected int
	fitting            map[string]int
}

// devices checks the devices of all slices, on all cores: the selectors of 80,000 devices take half a second on one.
func (q *question) devices(ctx context.Context, r asked, class *resourceapi.DeviceClass) (all []Device, parts []counts) {
	cores := runtime.GOMAXPROCS(0)
	all, parts = make([]Device, devicesOf(q.slices)), make([]counts, cores)
	var running sync.WaitGroup
	begin := 0
	for i := range parts {
		some := q.slices[len(q.slices)*i/cores : len(q.slices)*(i+1)/cores]
		end := begin + devicesOf(some)
		into := all[begin:begin:end]
		running.Go(func() { parts[i] = q.check(ctx, r, class, some, into) })
		begin = end
	}
	running.Wait()
	return all, parts
}

func devicesOf(all []*resourceapi.ResourceSlice) (n int) {
	for _, slice := range all {
		n += len(slice.Spec.Devices)
	}
	return n
}

// check checks the devices of some slices, and appends them, within its capacity.
func (q *question) check(ctx context.Context, r asked, class *resourceapi.DeviceClass, some []*resourceapi.ResourceSlice, into []Device) counts {
	c := counts{fitting: map[string]int{}}
	for _, slice := range some {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			d := q.device(ctx, r, class, slice, device)
			if n := len(into); n > 0 && into[n-1].Message == d.Message {
				d.Message = into[n-1].Message // one copy of equal texts
			}
			into = append(into, d)
			if d.matching {
				c.matching++
			}
			if d.Reason != ClassSelector {
				c.selected++
			}
			if d.Reason != Fits {
				continue
			}
			for _, node := range q.reachable(slice, device) {
				c.fitting[node.Name]++
			}
		}
	}
	return c
}

func short(r asked, fitting int, node string) string {
	wanted := fmt.Sprintf("needs %d devices", r.count)
	switch {
	case r.count == 0:
		wanted = "needs all matching devices"
	case r.count == 1:
		wanted = "needs 1 device"
	}
	if fitting == 0 {
		return wanted + "; none is suitable"
	}
	return fmt.Sprintf("%s; at most %d are suitable on one node (%s)", wanted, fitting, node)
}

// device returns the first reason against a device. The class comes first: the devices of
// other drivers are no concern of the request.
func (q *question) device(ctx context.Context, r asked, class *resourceapi.DeviceClass, slice *resourceapi.ResourceSlice, device *resourceapi.Device) Device {
	d := Device{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name}
	inClass, classFails, classMessage := q.selects(ctx, class.Spec.Selectors, slice.Spec.Driver, device)
	inRequest, requestFails, requestMessage := false, false, ""
	if inClass {
		inRequest, requestFails, requestMessage = q.selects(ctx, r.selectors, slice.Spec.Driver, device)
	}
	d.matching = inClass && inRequest
	pool := q.pools[placement.PoolOf(slice)]
	switch {
	case !inClass && !classFails:
		d.Reason, d.Message = ClassSelector, fmt.Sprintf("DeviceClass %s: %s", class.Name, classMessage)
	case slice.Spec.Pool.Generation < pool.Generation:
		d.Reason, d.Message = PoolObsolete, fmt.Sprintf("it belongs to generation %d of its pool; the driver publishes generation %d", slice.Spec.Pool.Generation, pool.Generation)
	case pool.Slices != pool.Total && !q.givesAway(r):
		d.Reason, d.Message = PoolIncomplete, fmt.Sprintf("pool incomplete: %[2]d of %[1]d slices published", pool.Total, pool.Slices)
	case pool.Invalid != "":
		d.Reason, d.Message = PoolIncomplete, "its pool "+pool.Invalid
	case len(q.reachable(slice, device)) == 0:
		d.Reason, d.Message = NodeMismatch, "it is on "+where(slice, device)+", "+q.where
	case classFails:
		d.Reason, d.Message = ClassSelectorError, fmt.Sprintf("DeviceClass %s: %s", class.Name, classMessage)
	case requestFails:
		d.Reason, d.Message = RequestSelectorError, "the request: "+requestMessage
	case !inRequest:
		d.Reason, d.Message = RequestSelector, "the request: "+requestMessage
	default:
		d.Reason, d.Message = q.available(r, slice, device)
	}
	return d
}

// available returns the reason against a device that is selected and in the right place.
func (q *question) available(r asked, slice *resourceapi.ResourceSlice, device *resourceapi.Device) (Reason, string) {
	pool := q.pools[placement.PoolOf(slice)]
	if message := q.taint(r, slice, device); message != "" {
		return Tainted, message
	}
	if holder := q.holders[idOf(slice, device)]; holder != nil && !r.admin {
		return Taken, fmt.Sprintf("held by claim %s/%s (%s)", holder.Namespace, holder.Name, consumers(holder))
	}
	if pool.Slices != pool.Total {
		return Fits, fmt.Sprintf("suitable, although only %[2]d of %[1]d slices of its pool are published: kube-scheduler before 1.35 does not wait for them", pool.Total, pool.Slices)
	}
	return Fits, ""
}

func idOf(slice *resourceapi.ResourceSlice, device *resourceapi.Device) usage.DeviceID {
	return usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name}
}

func didYouMean(name string, names []string) string {
	if near := manifest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func (q *question) classNames() (names []string) {
	for class := range q.cluster.View.Classes() {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	return names
}

// givesAway reports whether the scheduler allocates from incomplete pools for a request.
func (q *question) givesAway(r asked) bool {
	return q.cluster.IncompletePools && r.mode != resourceapi.DeviceAllocationModeAll
}

// selects asks the selectors one after the other.
func (q *question) selects(ctx context.Context, selectors []resourceapi.DeviceSelector, driver string, device *resourceapi.Device) (ok, failed bool, message string) {
	for i, s := range selectors {
		if s.CEL == nil {
			return false, true, fmt.Sprintf("selector %d has no expression", i)
		}
		compiled := q.cache.GetOrCompile(s.CEL.Expression)
		if selector.TooExpensive(compiled) {
			return false, true, fmt.Sprintf("selector %d %s: %s", i, compiled.Error.Detail, s.CEL.Expression)
		}
		if compiled.Error != nil {
			return false, true, fmt.Sprintf("selector %d does not compile: %s: %s", i, s.CEL.Expression, compiled.Error.Detail)
		}
		matches, _, err := compiled.DeviceMatches(ctx, placement.DeviceOf(driver, device))
		if errors.Is(err, selector.ErrTooExpensive) {
			return false, true, fmt.Sprintf("selector %d cannot be evaluated: %s: %v", i, s.CEL.Expression, err)
		}
		if err != nil {
			return false, true, fmt.Sprintf("selector %d fails, and kube-scheduler stops there: %s: %v", i, s.CEL.Expression, err)
		}
		if !matches {
			return false, false, fmt.Sprintf("selector %d is false: %s", i, s.CEL.Expression)
		}
	}
	return true, false, ""
}

// taint names the first taint that is not tolerated, and its origin.
func (q *question) taint(r asked, slice *resourceapi.ResourceSlice, device *resourceapi.Device) string {
	for i, taint := range device.Taints {
		if q.against(r, taint) {
			return fmt.Sprintf("taint %s of %s is not tolerated", toleration.TaintText(taint), q.source(slice, device.Name, i))
		}
	}
	return ""
}

// against reports whether a taint keeps a device from being allocated for a request.
func (q *question) against(r asked, taint resourceapi.DeviceTaint) bool {
	return q.features.DeviceTaints && (taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute) && !r.tolerated(taint)
}

// source is the origin of a taint: the driver, or a rule.
func (q *question) source(slice *resourceapi.ResourceSlice, device string, taint int) tracker.Source {
	for d := range q.cluster.View.SliceDevices(slice.Name) {
		if d.Name() == device && taint < len(d.Taints()) {
			return d.Taints()[taint].Source
		}
	}
	return tracker.Source{Kind: tracker.DriverSource, Name: slice.Spec.Driver}
}

// where is the place of a device.
func where(slice *resourceapi.ResourceSlice, device *resourceapi.Device) string {
	name, selector := slice.Spec.NodeName, slice.Spec.NodeSelector
	if slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection {
		name, selector = device.NodeName, device.NodeSelector
	}
	switch {
	case name != nil:
		return "node " + *name
	case selector != nil:
		return "the nodes of its node selector"
	default:
		return "all nodes"
	}
}

// reachable returns the nodes where the pod may run and can have a device. Most devices
// are on one node, which needs no comparison with all others.
func (q *question) reachable(slice *resourceapi.ResourceSlice, device *resourceapi.Device) []*corev1.Node {
	name, all, selector := slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector
	if slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection {
		name, all, selector = device.NodeName, device.AllNodes, device.NodeSelector
	}
	if name != nil && *name != "" {
		if node := q.byName[*name]; node != nil {
			return []*corev1.Node{node}
		}
		return nil
	}
	var nodes []*corev1.Node
	for _, node := range q.nodes {
		if placement.Matches(node, name, all, selector) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
