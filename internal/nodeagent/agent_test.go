package nodeagent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// TestStill: while the kubelet does not answer, its last answer counts for the pods that the
// API server still has.
func TestStill(t *testing.T) {
	listing := &podresources.Listing{Pods: []*v1.PodResources{{Namespace: "ml", Name: "deleted"}, {Namespace: "ml", Name: "stays"}, {Namespace: "other", Name: "stays"}}}
	kept := still(listing, []*corev1.Pod{podOf("stays")})
	if len(kept.Pods) != 1 || kept.Pods[0].GetName() != "stays" || kept.Pods[0].GetNamespace() != "ml" {
		t.Errorf("kept %v", kept.Pods)
	}
	if len(listing.Pods) != 3 {
		t.Error("the last answer was changed")
	}
	if still(nil, nil) != nil {
		t.Error("without an answer nothing is kept")
	}
}

// TestAdminAccessIsRemembered: the admin access of a claim that the API server no longer has
// counts until its devices are released.
func TestAdminAccessIsRemembered(t *testing.T) {
	admin := holding("monitor", "all", "gpu-0", func(h *podresources.Holding) { h.AdminAccess = true })
	forgotten := holding("monitor", "all", "gpu-0", func(h *podresources.Holding) { h.Source = podresources.FromCheckpoint })
	var a Agent
	for i, step := range []struct {
		holdings []podresources.Holding
		want     bool
	}{
		{[]podresources.Holding{admin}, true},
		{[]podresources.Holding{forgotten}, true},
		{nil, false},
		{[]podresources.Holding{forgotten}, false},
	} {
		a.remember(step.holdings)
		if got := a.admin[adminKey(admin)]; got != step.want {
			t.Errorf("step %d: %t, want %t", i, got, step.want)
		}
	}
}
