package devicehistory

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// holderOf is a claim with what is known of its pods.
func holderOf(claim *resourceapi.ResourceClaim, pod func(namespace, name string) *corev1.Pod) history.Holder {
	h := history.Holder{Namespace: claim.Namespace, Claim: claim.Name, UID: string(claim.UID)}
	if at := claim.Status.Allocation.AllocationTimestamp; at != nil {
		h.Since = at.Time
	}
	var names []string
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup != "" || user.Resource != "pods" {
			continue
		}
		if names = append(names, user.Name); h.Owner != "" && h.Node != "" {
			continue
		}
		if p := pod(claim.Namespace, user.Name); p != nil {
			h.Node = cmp.Or(h.Node, p.Spec.NodeName)
			if owner := metav1.GetControllerOf(p); owner != nil && h.Owner == "" {
				h.Owner = owner.Kind + "/" + owner.Name
			}
		}
	}
	h.AddPods(names...)
	return h
}

// devicesOf are the devices that a claim holds, each once. Admin access only observes.
func devicesOf(claim *resourceapi.ResourceClaim) (devices []v1alpha1.DeviceName) {
	if claim == nil || claim.Status.Allocation == nil {
		return nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		name := v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
		if !usage.Observes(*r) && !slices.Contains(devices, name) {
			devices = append(devices, name)
		}
	}
	return devices
}

// taintsOf are the taints of a device. Their rules say by whom and why.
func taintsOf(d tracker.Device, view *tracker.Snapshot) (all []history.Entry) {
	for _, taint := range d.Taints() {
		e := history.Entry{Kind: history.Taint, Name: toleration.TaintText(taint.DeviceTaint), Effect: string(taint.Effect), Source: taint.Source.String()}
		if taint.TimeAdded != nil {
			e.Begin = taint.TimeAdded.Time
		}
		if rule := view.Rule(taint.Source.Name); rule != nil && taint.Source.Kind == tracker.RuleSource {
			e.By, e.Reason, e.Ticket = why(rule)
		}
		all = append(all, e)
	}
	return all
}

// why is who owns an object, for what reason, and with which ticket.
func why(object metav1.Object) (by, reason, ticket string) {
	a := object.GetAnnotations()
	return a[v1alpha1.OwnerAnnotation], a[v1alpha1.ReasonAnnotation], a[v1alpha1.TicketAnnotation]
}

// maxDevices bounds the devices of a drain: pools times devices can be millions.
const maxDevices = 1 << 16

// drainsOf are the drains of each device.
func drainsOf(drains []*v1alpha1.DeviceDrain) map[v1alpha1.DeviceName][]history.Entry {
	all := map[v1alpha1.DeviceName][]history.Entry{}
	for _, d := range drains {
		if d.Spec.DryRun {
			continue
		}
		e := drainOf(d)
		if len(d.Status.Devices) == 0 {
			for _, name := range d.Spec.Devices {
				all[name] = append(all[name], e)
			}
		}
		left := maxDevices
		for name := range drain.Expand(d.Status.Devices) {
			if left--; left < 0 {
				break
			}
			all[name] = append(all[name], e)
		}
	}
	return all
}

func drainOf(d *v1alpha1.DeviceDrain) history.Entry {
	e := history.Entry{Kind: history.Drain, Name: d.Name, UID: string(d.UID), Begin: d.CreationTimestamp.Time}
	e.By, e.Reason, e.Ticket = why(d)
	if owner := metav1.GetControllerOf(d); owner != nil && e.By == "" {
		e.By = owner.Kind + "/" + owner.Name
	}
	for _, c := range d.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case v1alpha1.DrainBlocked:
			e.Steps = append(e.Steps, history.Step{Time: c.LastTransitionTime.Time, State: c.Type, Message: c.Reason})
		case v1alpha1.DrainDrained, v1alpha1.DrainFailed:
			e.Steps = append(e.Steps, history.Step{Time: c.LastTransitionTime.Time, State: c.Type, Message: c.Message})
		}
	}
	if reason := d.Annotations[v1alpha1.AcknowledgedAnnotation]; reason != "" {
		e.Steps = append(e.Steps, history.Step{State: "Acknowledged", Message: reason})
	}
	return e
}

// reactionsOf are the reactions to each device that is sick.
func reactionsOf(reactions []*v1alpha1.DeviceReaction) map[v1alpha1.DeviceName][]history.Entry {
	all := map[v1alpha1.DeviceName][]history.Entry{}
	for _, r := range reactions {
		for i := range r.Status.Devices {
			d := &r.Status.Devices[i]
			if d.State == v1alpha1.ReactionHealthy {
				continue
			}
			e := history.Entry{Kind: history.Reaction, Name: r.Name, Reason: d.Cause, Steps: []history.Step{{State: string(d.State), Message: d.Message, Cause: d.Cause}}}
			e.By, _, e.Ticket = why(r)
			if d.SickSince != nil {
				e.Begin = d.SickSince.Time
			}
			all[d.DeviceName] = append(all[d.DeviceName], e)
		}
	}
	return all
}
