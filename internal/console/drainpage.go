package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A drainRow is a drain in a list, and the head of its page.
type drainRow struct {
	Name, State, Reason, Message string
	// Since is when the drain was created, Changed when its state began, Ended when it was done.
	Since, Changed, Ended time.Time
	Counts                v1alpha1.DrainCounts
	// Percent is how many of its pods have left, of those that are known.
	Percent int
	Over    bool
	// Paused is true for a drain that is paused.
	Paused bool
}

// Row is the head of the page.
func (v drainView) Row() drainRow { return v.drainRow }

// Verbs are what can be done with the drain on a page.
func (r drainRow) Verbs() []string {
	switch {
	case r.Over:
		return []string{"cancel"}
	case r.Paused:
		return []string{"continue", "cancel"}
	}
	return []string{"pause", "cancel"}
}

// A drainView is the data of the page of a drain.
type drainView struct {
	drainRow
	Conditions []metav1.Condition
	Blocked    []v1alpha1.DrainBlock
	// BlockedSince is when the condition Blocked began.
	BlockedSince time.Time
	Devices      []heldDevice
	More         int
	Siblings     []string
	Deadline     string
	Commands     []command
}

func rowOf(d *v1alpha1.DeviceDrain) drainRow {
	r := drainRow{Name: d.Name, State: "Waiting", Message: "waiting for the controller", Since: d.CreationTimestamp.Time, Changed: d.CreationTimestamp.Time, Counts: d.Status.Counts, Over: fleet.Ended(d), Paused: d.Spec.Paused}
	if done := r.Counts.Evicted + r.Counts.Deleted; done+r.Counts.Remaining > 0 {
		r.Percent = percent(int(done), int(done+r.Counts.Remaining))
	}
	kinds := []string{v1alpha1.DrainDrained, v1alpha1.DrainFailed, v1alpha1.DrainBlocked, v1alpha1.DrainDraining, v1alpha1.DrainCordoned}
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(d.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			r.State, r.Reason, r.Message, r.Changed = kind, c.Reason, c.Message, c.LastTransitionTime.Time
			break
		}
	}
	if d.Status.CompletionTime != nil {
		r.Ended = d.Status.CompletionTime.Time
	}
	switch {
	case r.State == v1alpha1.DrainDrained:
		r.Percent = 100
	case d.Spec.Paused:
		r.State = "Paused"
	}
	return r
}

func (s *Server) drainsPage(_ context.Context, _ *http.Request, now *shown) (page, error) {
	return page{Template: "drains", Title: "Drains", Data: newDrainsView(s, now.fleet)}, nil
}

// drainRows are the drains, those that have not ended first, then the newest.
func drainRows(f *fleet.Fleet) (rows []drainRow) {
	for _, d := range f.Input.Drains {
		rows = append(rows, rowOf(d))
	}
	slices.SortFunc(rows, func(a, b drainRow) int {
		if a.Over != b.Over {
			if b.Over {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func (s *Server) drainPage(_ context.Context, r *http.Request, now *shown) (page, error) {
	name := r.FormValue("name")
	for _, d := range now.fleet.Input.Drains {
		if d.Name == name {
			return page{Template: "drain", Title: name, Data: s.newDrainView(now.fleet, d)}, nil
		}
	}
	return page{}, errMissing("DeviceDrain", name, now)
}

// maxDrainDevices is how many devices of a drain a page names.
const maxDrainDevices = 200

func (s *Server) newDrainView(f *fleet.Fleet, d *v1alpha1.DeviceDrain) drainView {
	v := drainView{drainRow: rowOf(d), Conditions: d.Status.Conditions, Blocked: d.Status.Blocked, Siblings: d.Status.Siblings}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainBlocked); c != nil && c.Status == metav1.ConditionTrue {
		v.BlockedSince = c.LastTransitionTime.Time
	}
	var ids []usage.DeviceID
	for id := range fleet.DevicesOf(d) {
		if len(ids) == maxDrainDevices {
			v.More++
			continue
		}
		ids = append(ids, id)
	}
	v.Devices = heldBy(f, ids, make([]string, len(ids)))
	if deadline := d.Spec.Deadline; deadline != nil {
		switch {
		case deadline.Time != nil:
			v.Deadline = stamp(deadline.Time.Time) + " " + string(deadline.Action)
		case deadline.After != nil:
			v.Deadline = deadline.After.Duration.String() + " after its creation " + string(deadline.Action)
		}
	}
	v.Commands = []command{{s.command("drain", "--list", "--watch"), "follows all drains"}}
	if !v.Over {
		v.Commands = append(v.Commands, command{s.command("drain", "--pause", d.Name), "pauses evictions"}, command{s.command("drain", "--cancel", d.Name), "ends the drain and its cordon"})
	}
	return v
}

// A ruleRow is a DeviceTaintRule.
type ruleRow struct {
	Name, Taint, Selector string
	Effect                string
	Since, Until          time.Time
	// Drain is the one whose cordon it is.
	Drain string
	// Devices is the number of devices that it taints, Held how many of them claims have.
	Devices, Held int
	// Ours is true for a rule that untaint deletes.
	Ours bool
}

// A patchRow is a ResourceSlicePatch.
type patchRow struct {
	Name            string
	Priority        int
	Devices, Slices int
	Problems        []string
}

// A taintsView is the data of the page of rules and patches.
type taintsView struct {
	Rules   []ruleRow
	Patches []patchRow
}

func (s *Server) taintsPage(_ context.Context, _ *http.Request, now *shown) (page, error) {
	return page{Template: "taints", Title: "Taints and patches", Data: newTaintsView(now.fleet)}, nil
}

func newTaintsView(f *fleet.Fleet) (v taintsView) {
	if f.Input.View == nil {
		return v
	}
	devices, held := map[string]int{}, map[string]int{}
	for i := range f.Devices {
		for name := range f.Devices[i].Rules() {
			devices[name]++
			if f.Devices[i].State.Fill == fleet.Held {
				held[name]++
			}
		}
	}
	for rule := range f.Input.View.Rules() {
		row := ruleRow{Name: rule.Name, Taint: toleration.TaintText(rule.Spec.Taint), Effect: string(rule.Spec.Taint.Effect), Selector: selectorText(rule.Spec.DeviceSelector),
			Devices: devices[rule.Name], Held: held[rule.Name]}
		row.Drain, _ = drain.OwnerOf(rule)
		row.Ours = untaints(rule)
		if rule.Spec.Taint.TimeAdded != nil {
			row.Since = rule.Spec.Taint.TimeAdded.Time
		}
		row.Until, _ = time.Parse(time.RFC3339, rule.Annotations[v1alpha1.ExpiresAnnotation])
		v.Rules = append(v.Rules, row)
	}
	for _, report := range f.Input.View.PatchReports() {
		row := patchRow{Name: report.Patch.Name, Devices: report.Report.Devices, Slices: report.Report.Slices}
		for _, problem := range report.Problems {
			row.Problems = append(row.Problems, problem.Message)
		}
		v.Patches = append(v.Patches, row)
	}
	return v
}

func selectorText(s *resourceapi.DeviceTaintSelector) string {
	if s == nil {
		return "nothing"
	}
	text := ""
	for _, part := range []*string{s.Driver, s.Pool, s.Device} {
		switch {
		case part == nil && text == "":
		case part == nil:
			text += "/*"
		case text == "":
			text = *part
		default:
			text += "/" + *part
		}
	}
	return cmp.Or(text, "all devices")
}
