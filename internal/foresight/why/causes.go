package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// tries bounds how many changes of one kind are tried for a request.
const tries = 8

// A hypothesis is a cause and the change of the question that removes it: the allocator
// decides whether that suffices.
type hypothesis struct {
	cause  Cause
	change func(*question)
	// describe completes the cause with the devices that the allocator then finds; nil if
	// it is complete.
	describe func(*Cause, allocation)
}

// causes finds out what keeps the claim from being allocated, by changing one thing at a
// time.
func (q *question) causes(ctx context.Context, report *Explanation) []Cause {
	var all []Cause
	for i, r := range q.requests {
		switch report.Requests[i].Reason {
		case ClassNotFound:
			all = append(all, q.classMissing(r))
		case NoDevice:
			all = append(all, q.noDevices(r))
		}
	}
	if slices.ContainsFunc(all, func(c Cause) bool { return c.Kind == ClassMissing }) {
		return all
	}
	if strings.HasPrefix(report.Message, placement.ErrSlow.Error()) { // with a change as well
		return append(all, Cause{Kind: Combination, Claim: q.claim.Name, Message: report.Message})
	}
	all = append(all, q.changes(ctx, report)...)
	if len(q.others) > 0 && !slices.ContainsFunc(all, func(c Cause) bool { return c.Sufficient }) {
		alone := *q
		alone.others = nil
		all = append(all, alone.changes(ctx, report)...)
	}
	if len(all) == 0 {
		message := report.Message
		for _, slice := range q.slices {
			if on := slice.Spec.NodeSelector; on != nil && len(on.NodeSelectorTerms) != 1 && strings.Contains(message, "unsupported ResourceSlice.NodeSelector") {
				message = fmt.Sprintf("ResourceSlice %s has a node selector with %d terms; kube-scheduler allocates with exactly one", slice.Name, len(on.NodeSelectorTerms))
			}
		}
		if message == "" {
			message = "no combination of the suitable devices satisfies all requests"
		}
		all = append(all, Cause{Kind: Combination, Claim: q.claim.Name, Message: message})
	}
	return all
}

// changes tries what could be changed, and returns for each kind the first change that
// suffices, or else the first of all.
func (q *question) changes(ctx context.Context, report *Explanation) (all []Cause) {
	for i, r := range q.requests {
		request := &report.Requests[i]
		for _, find := range []func(context.Context, asked, *Request) []hypothesis{
			q.failing, q.tainted, q.incomplete, q.elsewhere, q.tooLarge, q.held, q.tooMany, q.unselected,
		} {
			all = append(all, q.firstOf(ctx, find(ctx, r, request))...)
		}
	}
	for i := range q.claim.Spec.Devices.Constraints {
		all = append(all, q.firstOf(ctx, q.constraint(i))...)
	}
	all = append(all, q.firstOf(ctx, q.patched())...)
	for i := range all {
		if q.origin.resource != podResource {
			all[i].Claim = q.claim.Name
		}
	}
	return all
}

// firstOf returns the first cause whose change suffices, or the first of all.
func (q *question) firstOf(ctx context.Context, hypotheses []hypothesis) []Cause {
	for i, h := range hypotheses {
		if i == tries || ctx.Err() != nil {
			break
		}
		changed := *q
		h.change(&changed)
		found, err := changed.allocate(ctx)
		if err != nil || found.results == nil {
			continue
		}
		cause := h.cause
		cause.Sufficient = true
		if h.describe != nil {
			h.describe(&cause, found)
		}
		return []Cause{cause}
	}
	for _, h := range hypotheses {
		if h.describe == nil {
			return []Cause{h.cause}
		}
	}
	return nil
}

func (q *question) classMissing(r asked) Cause {
	c := Cause{Kind: ClassMissing, Claim: q.claim.Name, Remedy: "create that DeviceClass, or request one that exists"}
	names := q.classNames()
	c.Message = fmt.Sprintf("DeviceClass %s does not exist%s", r.class, didYouMean(r.class, names))
	if len(names) == 0 {
		c.Message = fmt.Sprintf("DeviceClass %s does not exist; there are no DeviceClasses", r.class)
	}
	if q.cluster.NoClasses {
		c.Message, c.Remedy = fmt.Sprintf("DeviceClass %s cannot be read", r.class), ""
	}
	near := nearest(r.class, names)
	if near != "" && q.origin.resource != podResource {
		c.Remedy = "request " + near
		c.Command = q.origin.edit(operation{"replace", r.path + "/deviceClassName", near})
	} else if len(names) > 0 {
		c.Remedy += ": " + list(names, 5)
	}
	return c
}

func (q *question) noDevices(r asked) Cause {
	c := Cause{Kind: NoDevices, Claim: q.claim.Name, Remedy: "install or restart the driver of these devices, or correct the selectors of the class"}
	drivers, devices := map[string]bool{}, 0
	for _, slice := range q.slices {
		drivers[slice.Spec.Driver] = true
		devices += len(slice.Spec.Devices)
	}
	if devices == 0 {
		c.Message, c.Remedy = "no driver publishes a device", "install or restart the driver of these devices"
		return c
	}
	c.Message = fmt.Sprintf("DeviceClass %s selects none of the %s of %s", r.class, plural.Of(devices, "device"), plural.Of(len(drivers), "driver"))
	c.Command = editClass(r.class)
	return c
}

// A place is a device and its slice.
type place struct {
	slice  *resourceapi.ResourceSlice
	device *resourceapi.Device
}

func (p place) String() string {
	return p.device.Name + " on " + strings.TrimPrefix(where(p.slice, p.device), "node ")
}

// places returns the devices of a request with one of the reasons.
func (q *question) places(r *Request, include func(Device) bool) (all []place) {
	at := 0
	for _, slice := range q.slices {
		for i := range slice.Spec.Devices {
			if include(r.Devices[at]) {
				all = append(all, place{slice, &slice.Spec.Devices[i]})
			}
			at++
		}
	}
	return all
}

func because(reason Reason) func(Device) bool {
	return func(d Device) bool { return d.Reason == reason && d.matching }
}

// find returns a device by its name.
func (q *question) find(id structured.DeviceID) (p place, ok bool) {
	for _, slice := range q.slices {
		if slice.Spec.Driver != id.Driver.String() || slice.Spec.Pool.Name != id.Pool.String() {
			continue
		}
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == id.Device.String() {
				return place{slice, &slice.Spec.Devices[i]}, true
			}
		}
	}
	return p, false
}

// noun is what people call the devices of a request: the string that a selector asks for,
// or else the class.
func noun(r asked) string {
	for _, s := range r.selectors {
		if s.CEL == nil {
			continue
		}
		for _, t := range terms(s.CEL.Expression) {
			if t.literal != "" {
				return t.literal
			}
		}
	}
	return r.class
}

func joinCommands(commands []string) string {
	if slices.Contains(commands, "") {
		return ""
	}
	return strings.Join(commands, " && ")
}
