package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A deviceView is the data of the page of a device.
type deviceView struct {
	fleet.Detail
	// Health is what the status of its pods says about it, empty if that says nothing; Broken is
	// true if it is unhealthy.
	Health string
	Broken bool
	// Unknown is true if claims that could hold it could not be read.
	Unknown bool
	// Previews are what commands would say; Commands are to be copied.
	Previews []preview
	Commands []command
	// Findings are those of the agent of its node about the pods that hold it.
	Findings eventLog
	// History is what happened to it.
	History deviceHistory
	// Untaints are the taints that untaint removes from it.
	Untaints []untaint
}

// An untaint is a taint with the rule that untaint deletes.
type untaint struct{ Taint, Rule string }

// A command is a line for a shell, and what it does.
type command struct{ Line, Does string }

func (s *Server) devicePage(ctx context.Context, r *http.Request, now *shown) (page, error) {
	id := usage.DeviceID{Driver: r.FormValue("driver"), Pool: r.FormValue("pool"), Device: r.FormValue("device")}
	d, found := now.fleet.Find(id)
	if !found {
		return page{}, errMissing("device", id.String(), now)
	}
	v := s.newDeviceView(now.fleet, d)
	var pods []*corev1.Pod
	v.Previews, pods = s.previews(ctx, now, id)
	v.setHealth(pods)
	v.Findings = s.found(ctx, v.Holders)
	v.History = s.historyOf(ctx, id)
	return page{Template: "device", Title: id.Device, Data: v}, nil
}

// setHealth shows what pods report.
func (v *deviceView) setHealth(pods []*corev1.Pod) {
	record, said := v.Said(pods)
	if !said {
		return
	}
	v.Broken = record.Health == corev1.ResourceHealthStatusUnhealthy
	v.Health = string(record.Health)
	if record.Message != "" {
		v.Health += ": " + record.Message
	}
	v.Health += " (" + record.From + ")"
}

func (s *Server) newDeviceView(f *fleet.Fleet, d *fleet.Device) deviceView {
	v := deviceView{Detail: f.Detail(d), Unknown: d.State.Fill == fleet.Unknown}
	target := d.ID.String()
	v.Commands = []command{
		{s.command("devices", target, "-o", "yaml"), "shows what this page shows"},
		{s.command("history", target), "shows what was done to it, and who held it"},
		{s.command("taint", target, "example.com/broken:NoSchedule"), "keeps new claims away"},
		{s.command("drain", target), "moves its pods, within their budgets"},
	}
	for name := range d.Rules() {
		if rule := f.Input.View.Rule(name); rule != nil && untaints(rule) {
			v.Untaints = append(v.Untaints, untaint{toleration.TaintText(rule.Spec.Taint) + " of " + targetOf(rule.Spec.DeviceSelector).String(), name})
		}
	}
	slices.SortFunc(v.Untaints, func(a, b untaint) int { return strings.Compare(a.Rule, b.Rule) })
	var keys []string
	for _, taint := range v.Taints {
		if taint.Drain != "" {
			v.Commands = append(v.Commands, command{s.command("drain", "--cancel", taint.Drain), "cancels drain " + taint.Drain})
		} else if taint.Source.Kind == "rule" && !slices.Contains(keys, taint.Key) {
			keys = append(keys, taint.Key)
			v.Commands = append(v.Commands, command{s.command("untaint", target, taint.Key), "removes the taint " + taint.Key + " if dra-steward taint has set it"})
		}
	}
	return v
}

// A heldDevice is a device of a claim or a drain.
type heldDevice struct {
	ID      usage.DeviceID
	Request string
	State   fleet.State
	// Published is false for a device that no slice has.
	Published bool
}

func heldBy(f *fleet.Fleet, ids []usage.DeviceID, requests []string) (all []heldDevice) {
	for i, id := range ids {
		h := heldDevice{ID: id, Request: requests[i]}
		if d, found := f.Find(id); found {
			h.State, h.Published = d.State, true
		}
		all = append(all, h)
	}
	return all
}

// tooLong is the text of a prediction that has not ended in time.
func tooLong() string { return fmt.Sprintf("not finished within %s; run the command:", predictTime) }

// maxEvents is how many events of its history a page of a device shows.
const maxEvents = 64

// A deviceHistory is the history of a device, the newest event first.
type deviceHistory struct {
	Events []history.Event
	// More is how many older events there are, Notes are about what is not known.
	More  int
	Notes []string
	// Error is why there are none.
	Error string
	// Asked is true if the history could be asked for.
	Asked bool
}

// historyOf reads the history of a device.
func (s *Server) historyOf(ctx context.Context, id usage.DeviceID) (p deviceHistory) {
	if s.options.History == nil {
		return p
	}
	p.Asked = true
	record, err := s.options.History(ctx, v1alpha1.DeviceName(id))
	switch {
	case apierrors.IsForbidden(err):
		p.Error = "You are not allowed to read the history, which is in ConfigMaps of namespace " + s.options.Release + "."
	case err != nil:
		p.Error = "The history cannot be read: " + err.Error()
	case record != nil:
		p.Events, p.Notes = record.Timeline(time.Time{}), record.Notes()
		slices.Reverse(p.Events)
		p.More = max(0, len(p.Events)-maxEvents)
		p.Events = p.Events[:len(p.Events)-p.More]
	}
	return p
}
