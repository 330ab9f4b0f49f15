package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// rollOf is a roll that has failed on a node, with a text wherever the cluster has one.
func rollOf(text string) *v1alpha1.DeviceRoll {
	since := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	r := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: text, Generation: 1, CreationTimestamp: since}}
	r.Spec.Driver = text
	r.Spec.NodeWork = &v1alpha1.RollNodeWork{Annotation: &v1alpha1.RollNodeAnnotation{Key: text, Value: text}}
	r.Status.ObservedGeneration = 1
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RollHeld, Status: metav1.ConditionTrue, Reason: v1alpha1.HeldNodeFailed, Message: text, LastTransitionTime: since}}
	r.Status.Counts = v1alpha1.RollCounts{Nodes: 5, Done: 1, InWork: 1, Failed: 1}
	r.Status.Nodes = []v1alpha1.RollNode{
		{Name: text + "-done", State: v1alpha1.RollDone, Since: &since}, {Name: text + "-later", State: v1alpha1.RollWaiting},
		{Name: text + "-work", State: v1alpha1.RollWorking, Since: &since, Drain: text},
		{Name: text + "-failed", State: v1alpha1.RollFailed, FailedIn: v1alpha1.RollProving, Since: &since, Message: text},
	}
	return r
}

// drainsPage is the page of drains of a cluster with rolls.
func drainsPage(t *testing.T, rolls ...*v1alpha1.DeviceRoll) string {
	t.Helper()
	f, err := fleet.Build(t.Context(), fleet.Input{Rolls: rolls}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	handler := newServer(t, f).Handler(g)
	return answer(handler, "GET", "/drains", enter(t, g, handler)).Body.String()
}

// inOrder expects texts one after the other.
func inOrder(t *testing.T, body string, all ...string) {
	t.Helper()
	rest := body
	for _, want := range all {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q, or not in this order, in\n%s", want, body)
		}
		rest = after
	}
}

// TestRolls: the page of drains has the rolls with the phase of each node, what it waits for and since
// when, those that wait for a user first, and the commands for the state of the roll.
func TestRolls(t *testing.T) {
	inOrder(t, drainsPage(t, rollOf("driver-2")), "Roll <bdi>driver-2</bdi>", "Held</span>", "20 percent of the nodes are done", "1 of 5 nodes done, 1 in work, 1 failed, 0 left out",
		"Begins no further node for", "NodeFailed: driver-2",
		"driver-2-failed", "Failed in Proving", "driver-2</bdi>", "2026-03-04 05:06:07Z",
		"driver-2-work", "Working", "the annotation driver-2=driver-2 of the node", `href="/drain?name=driver-2"`,
		"driver-2-later", "its turn", "driver-2-done", "Done",
		"dra-steward roll --continue driver-2", "dra-steward roll --skip driver-2-failed driver-2", "dra-steward roll --undo driver-2")
}

// TestRollCommands: a roll has the commands that its state allows.
func TestRollCommands(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	held := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.RollHeld, Status: metav1.ConditionTrue, Reason: reason}}
	}
	for name, tt := range map[string]struct {
		change  func(*v1alpha1.DeviceRoll)
		want    []string
		without []string
	}{
		"new":      {func(r *v1alpha1.DeviceRoll) { r.Status = v1alpha1.DeviceRollStatus{} }, []string{"Waiting</span>", "No controller has processed it yet", "--pause", "--undo"}, []string{"--continue"}},
		"canary":   {func(r *v1alpha1.DeviceRoll) { r.Status.Nodes, r.Status.Conditions = nil, held(v1alpha1.HeldCanary) }, []string{"goes on after the canary", "--undo"}, []string{"--skip", "--pause"}},
		"paused":   {func(r *v1alpha1.DeviceRoll) { r.Spec.Paused = true }, []string{"roll --resume", "--undo"}, []string{"--continue"}},
		"undone":   {func(r *v1alpha1.DeviceRoll) { r.Spec.Undo = true }, []string{"roll --resume"}, []string{"roll --undo"}},
		"goes on":  {func(r *v1alpha1.DeviceRoll) { r.Status.Nodes, r.Status.Conditions = nil, nil }, []string{"Rolling</span>", "roll --pause", "--undo"}, []string{"no further node for", "--continue"}},
		"complete": {func(r *v1alpha1.DeviceRoll) { r.Status.CompletionTime = &since }, []string{"Completed</span>", "100 percent", "roll --delete"}, []string{"roll --undo", "Begins no further node"}},
	} {
		r := rollOf("a")
		tt.change(r)
		body := drainsPage(t, r)
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", name, want, body)
			}
		}
		for _, other := range tt.without {
			if strings.Contains(body, other) {
				t.Errorf("%s: has %q", name, other)
			}
		}
	}
}

// TestLargeRoll: a page shows 100 nodes of a roll, the failed one among them, and counts the others.
func TestLargeRoll(t *testing.T) {
	r := rollOf("a")
	for i := range 200 {
		r.Status.Nodes = append([]v1alpha1.RollNode{{Name: fmt.Sprint("n", i), State: v1alpha1.RollDone}}, r.Status.Nodes...)
	}
	body := drainsPage(t, r)
	inOrder(t, body, "a-failed", "a-work", "and 104 more nodes")
}
