package deviceroll

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// statusAPI stores a status, and its answer is lost.
type statusAPI struct {
	API
	stored *v1alpha1.DeviceRoll
}

func (a *statusAPI) UpdateRollStatus(_ context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	a.stored = r
	return nil, apierrors.NewTimeoutError("the answer is lost", 1)
}

// TestLostAnswer: a node that a roll begins is busy for the others of the pass, also if the answer to the write is lost.
func TestLostAnswer(t *testing.T) {
	m := newModel(t, 1, asIs)
	api := &statusAPI{}
	c := &Controller{options: Options{API: api, Usage: &usage.Index{}}, refused: map[string]string{}}
	all := &cluster{view: tracker.Merge(sliceOf("slice", "node-0", 1, 1, "gpu-0")), busy: map[string]string{}, now: m.now}
	if _, err := c.take(t.Context(), m.roll, roll.Decide(m.input()), all); !apierrors.IsTimeout(err) || api.stored.Status.Nodes[0].State != v1alpha1.RollDraining {
		t.Fatalf("%v, stored %+v", err, api.stored)
	}
	other := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	if n := c.node(t.Context(), other, node, roll.PublishedBy("", all.view)["node-0"], v1alpha1.RollNode{}, all); n.Busy != "roll" {
		t.Errorf("another roll can begin with the node: %+v", n)
	}
}
