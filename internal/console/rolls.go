package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
)

// maxRollNodes is how many nodes of a roll a page shows, those in work first.
const maxRollNodes = 100

// A rollView is a roll with its nodes.
type rollView struct {
	Name, Driver, State string
	Counts              v1alpha1.RollCounts
	// Percent is how many nodes are done or left out.
	Percent int
	// Since is when the roll was created, Ended when it was complete.
	Since, Ended time.Time
	// Held is why the roll begins no further node, empty if it does; HeldSince is when that began.
	Held      string
	HeldSince time.Time
	Nodes     []rollNode
	// More is how many nodes are not shown.
	More     int
	Commands []command
}

// A rollNode is a node of a roll.
type rollNode struct {
	Name, State, Waits, Drain string
	// Since is when the node came into its state.
	Since time.Time
}

// rollViews are the rolls, those that are not complete first.
func (s *Server) rollViews(f *fleet.Fleet) (all []rollView) {
	for _, r := range f.Input.Rolls {
		all = append(all, s.newRollView(r))
	}
	slices.SortFunc(all, func(a, b rollView) int {
		return cmp.Or(first(a.Ended.IsZero(), b.Ended.IsZero()), b.Since.Compare(a.Since), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (s *Server) newRollView(r *v1alpha1.DeviceRoll) rollView {
	v := rollView{Name: r.Name, Driver: r.Spec.Driver, State: "Waiting", Counts: r.Status.Counts, Since: r.CreationTimestamp.Time}
	if r.Status.ObservedGeneration != 0 {
		v.State = v1alpha1.RollRolling
	} else {
		v.Held = "No controller has processed it yet."
	}
	v.Percent = percent(int(v.Counts.Done+v.Counts.Skipped), int(v.Counts.Nodes))
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RollHeld); c != nil && c.Status == metav1.ConditionTrue {
		v.State, v.Held, v.HeldSince = v1alpha1.RollHeld, c.Reason, c.LastTransitionTime.Time
		if c.Message != "" {
			v.Held += ": " + c.Message
		}
	}
	if ended := r.Status.CompletionTime; ended != nil {
		v.State, v.Held, v.Percent, v.Ended = v1alpha1.RollCompleted, "", 100, ended.Time
	}
	v.setNodes(r)
	v.Commands = s.rollCommands(r)
	return v
}

// setNodes shows the nodes, those that wait for a user first.
func (v *rollView) setNodes(r *v1alpha1.DeviceRoll) {
	nodes := slices.Clone(r.Status.Nodes)
	slices.SortStableFunc(nodes, func(a, b v1alpha1.RollNode) int { return cmp.Compare(attention(a.State), attention(b.State)) })
	v.More = max(0, len(nodes)-maxRollNodes)
	for _, n := range nodes[:len(nodes)-v.More] {
		one := rollNode{Name: n.Name, State: string(n.State), Waits: waitsFor(r, n), Drain: n.Drain}
		if n.FailedIn != "" {
			one.State += " in " + string(n.FailedIn)
		}
		if n.Since != nil {
			one.Since = n.Since.Time
		}
		v.Nodes = append(v.Nodes, one)
	}
}

// attention orders states: failed nodes, those in work, those that wait, and those that are over.
func attention(state v1alpha1.RollState) int {
	switch state {
	case v1alpha1.RollFailed:
		return 0
	case v1alpha1.RollWaiting:
		return 2
	case v1alpha1.RollDone, v1alpha1.RollSkipped, v1alpha1.RollGone, v1alpha1.RollUndone:
		return 3
	}
	return 1
}

// waitsFor is what a node waits for: what the controller says, or else what its state means.
func waitsFor(r *v1alpha1.DeviceRoll, n v1alpha1.RollNode) string {
	if n.Message != "" {
		return n.Message
	}
	switch n.State {
	case v1alpha1.RollWaiting:
		return "its turn"
	case v1alpha1.RollDraining:
		return "the pods that use its devices to leave"
	case v1alpha1.RollReplacing:
		return "the pods of the driver to be replaced"
	case v1alpha1.RollWorking:
		return worksUntil(r.Spec.NodeWork)
	case v1alpha1.RollPublishing:
		return "its devices to be published as before"
	case v1alpha1.RollProving:
		return "the proof to succeed"
	case v1alpha1.RollRestoring:
		return "its cordon to be taken back"
	}
	return ""
}

// worksUntil is what ends the work on a node.
func worksUntil(work *v1alpha1.RollNodeWork) string {
	switch {
	case work != nil && work.Condition != nil:
		return fmt.Sprintf("the condition %s=%s of the node", work.Condition.Type, cmp.Or(string(work.Condition.Status), string(metav1.ConditionTrue)))
	case work != nil && work.Annotation != nil:
		return fmt.Sprintf("the annotation %s=%s of the node", work.Annotation.Key, work.Annotation.Value)
	}
	return "the node in spec.workDone"
}

// rollCommands are what steers a roll in its state.
func (s *Server) rollCommands(r *v1alpha1.DeviceRoll) []command {
	if r.Status.CompletionTime != nil {
		return []command{{s.command("roll", "--delete", r.Name), "deletes the roll, so that it can be made again"}}
	}
	var all []command
	failed := slices.IndexFunc(r.Status.Nodes, func(n v1alpha1.RollNode) bool { return n.State == v1alpha1.RollFailed })
	held := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RollHeld)
	canary := held != nil && held.Status == metav1.ConditionTrue && held.Reason == v1alpha1.HeldCanary
	switch {
	case r.Spec.Undo:
		return []command{{s.command("roll", "--resume", r.Name), "goes on with the roll that was undone"}}
	case r.Spec.Paused:
		all = append(all, command{s.command("roll", "--resume", r.Name), "goes on with the roll that is paused"})
	case failed >= 0:
		all = append(all, command{s.command("roll", "--continue", r.Name), "tries the nodes again that have failed"},
			command{s.command("roll", "--skip", r.Status.Nodes[failed].Name, r.Name), "leaves the node out, and takes its cordon back"})
	case canary:
		all = append(all, command{s.command("roll", "--continue", r.Name), "goes on after the canary"})
	default:
		all = append(all, command{s.command("roll", "--pause", r.Name), "begins no further node, and evicts no further pods"})
	}
	return append(all, command{s.command("roll", "--undo", r.Name), "takes back all cordons of the roll, and begins no further node"})
}
