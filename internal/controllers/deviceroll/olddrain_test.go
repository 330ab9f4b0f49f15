package deviceroll

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
)

// drainAPI has a drain of each name already.
type drainAPI struct{ API }

func (drainAPI) Create(_ context.Context, d *v1alpha1.DeviceDrain, _ bool) (*v1alpha1.DeviceDrain, error) {
	return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "devicedrains"}, d.Name)
}

// TestOldDrain: a roll uses its own drains only, and says which other one keeps it from creating them.
func TestOldDrain(t *testing.T) {
	for what, tt := range map[string]struct {
		label string
		owner types.UID
		text  string
	}{
		"its own":         {"roll", "roll", ""},
		"an earlier roll": {"roll", "earlier", "is of an earlier roll of this name"},
		"a user":          {"", "", "is not a drain of the roll"},
	} {
		t.Run(what, func(t *testing.T) {
			m := newModel(t, 1, asIs)
			old := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{
				Name: roll.DrainName("roll", "node-0"), Labels: map[string]string{v1alpha1.RollLabel: tt.label},
				OwnerReferences: []metav1.OwnerReference{{Kind: v1alpha1.DeviceRollKind, Name: "roll", UID: tt.owner}},
			}}
			all := &cluster{drains: []*v1alpha1.DeviceDrain{old}}
			if own := len(all.drainsOf(m.roll)) == 1; own != (tt.text == "") {
				t.Errorf("it is a drain of the roll: %t", own)
			}
			drains := cache.NewSharedIndexInformer(nil, &v1alpha1.DeviceDrain{}, 0, cache.Indexers{})
			if err := drains.GetStore().Add(old); err != nil {
				t.Fatal(err)
			}
			c := &Controller{options: Options{API: drainAPI{}, Drains: drains}, refused: map[string]string{}}
			err := c.act(t.Context(), m.roll, roll.Decide(m.input()), all)
			if refused := c.refused["roll/node-0"]; !strings.Contains(refused, tt.text) || (refused == "") != (tt.text == "") || (err == nil) != (tt.text == "") {
				t.Errorf("refused %q, %v", refused, err)
			}
		})
	}
}
