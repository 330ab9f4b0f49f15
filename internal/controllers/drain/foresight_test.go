package drain_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestPodsLand: the condition follows the answers, and the last one stays while there is no
// other.
func TestPodsLand(t *testing.T) {
	in := newWorld(t, 1, nil).input()
	late := &guard.Stranded{NotComputed: "it takes too long"}
	for _, tt := range []struct {
		stranded *guard.Stranded
		want     string
	}{
		{nil, ""},
		{late, "NotComputed: it is unknown whether the pods land again: it takes too long"},
		{&guard.Stranded{}, "AllLand: all pods that still have to leave land again"},
		{late, "AllLand: all pods that still have to leave land again"},
		{&guard.Stranded{Pods: 1, Names: []string{"ml/a (constraint numaNode)"}}, "Stranded: 1 pod does not land again: ml/a (constraint numaNode)"},
		{nil, "Stranded: 1 pod does not land again: ml/a (constraint numaNode)"},
		{&guard.Stranded{Pods: 5, Names: []string{"ml/a (x)", "ml/b (x)", "ml/c (x)", "ml/d (x)", "ml/e (x)"}}, "Stranded: 5 pods do not land again: ml/a (x), ml/b (x), ml/c (x) and 2 more"},
	} {
		in.Stranded = tt.stranded
		in.Drain.Status = drain.Decide(in).Status
		got := ""
		if found := meta.FindStatusCondition(in.Drain.Status.Conditions, v1alpha1.DrainPodsLand); found != nil {
			got = found.Reason + ": " + found.Message
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.stranded, got, tt.want)
		}
	}
}
