package console

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A drainsView is the data of the page of drains, rolls and reactions.
type drainsView struct {
	Rows      []drainRow
	Rolls     []rollView
	Reactions []reactionView
}

// A reactionView is a reaction with its devices.
type reactionView struct {
	Name, Mode string
	Counts     v1alpha1.ReactionCounts
	// Notes are the messages of the conditions that need attention.
	Notes   []string
	Devices []reactionDevice
	// Commands acknowledge a device, if one is drained.
	Commands []command
}

// A reactionDevice is a device that is or was sick.
type reactionDevice struct {
	ID                           usage.DeviceID
	State, Cause, Message, Drain string
	// Since is when it became sick or healthy.
	Since time.Time
}

func newDrainsView(s *Server, f *fleet.Fleet) drainsView {
	v := drainsView{Rows: drainRows(f), Rolls: s.rollViews(f)}
	for _, r := range f.Input.Reactions {
		v.Reactions = append(v.Reactions, s.newReactionView(r))
	}
	slices.SortFunc(v.Reactions, func(a, b reactionView) int { return cmp.Compare(a.Name, b.Name) })
	return v
}

func (s *Server) newReactionView(r *v1alpha1.DeviceReaction) reactionView {
	v := reactionView{Name: r.Name, Mode: cmp.Or(string(r.Spec.Mode), string(v1alpha1.ReactionObserve)), Counts: r.Status.Counts}
	for _, kind := range []string{v1alpha1.ReactionPaused, v1alpha1.ReactionFlapping, v1alpha1.ReactionActing} {
		c := meta.FindStatusCondition(r.Status.Conditions, kind)
		if c == nil || c.Message == "" || kind == v1alpha1.ReactionActing && c.Reason != "Unknown" {
			continue
		}
		if c.Status == metav1.ConditionTrue {
			v.Notes = append(v.Notes, kind+": "+c.Message)
		} else {
			v.Notes = append(v.Notes, c.Message)
		}
	}
	for _, d := range r.Status.Devices {
		one := reactionDevice{ID: usage.DeviceID(d.DeviceName), State: string(d.State), Cause: d.Cause, Message: d.Message, Drain: d.Drain}
		if at := cmp.Or(d.SickSince, d.HealthySince); at != nil {
			one.Since = at.Time
		}
		v.Devices = append(v.Devices, one)
		if v.Commands == nil && (d.State == v1alpha1.ReactionDrained || d.State == v1alpha1.ReactionDraining) {
			v.Commands = []command{{s.command("acknowledge", d.DeviceName.String(), "--reason", "replaced"), "puts the device back into use"}}
		}
	}
	return v
}
