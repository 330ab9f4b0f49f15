package compact

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBounds: what pods and claims usually have is kept.
func TestBounds(t *testing.T) {
	labels := map[string]string{}
	for i := range maxLabels {
		labels[fmt.Sprint(i)] = "a"
	}
	if got := Labels(labels); len(got) != maxLabels {
		t.Errorf("%d labels", len(got))
	}
	labels["one more"] = "a"
	if got := Labels(labels); got != nil {
		t.Errorf("%d labels beyond the bound", len(got))
	}
	if got := Labels(map[string]string{"a": strings.Repeat("x", maxLabelBytes)}); got != nil {
		t.Error("a label beyond the bound")
	}
	owners := []metav1.OwnerReference{{Kind: "A", Name: "a"}, {Kind: "B", Name: strings.Repeat("b", 253), Controller: new(true)}}
	if got := Owner(&metav1.ObjectMeta{OwnerReferences: owners}); len(got) != 1 || got[0].Kind != "B" {
		t.Errorf("owners %v", got)
	}
	if got := Owner(&metav1.ObjectMeta{OwnerReferences: owners[:1]}); got != nil {
		t.Errorf("an owner that is no controller: %v", got)
	}
}

// TestClaimsOfRunningPods: no claim of a pod that runs is left out, so that each counts for its eviction.
func TestClaimsOfRunningPods(t *testing.T) {
	for name, tt := range map[string]struct {
		node  string
		phase corev1.PodPhase
		n     int
		want  int
	}{
		"waits":                {"", corev1.PodPending, maxClaims, maxClaims},
		"waits, with more":     {"", corev1.PodPending, maxClaims + 1, 0},
		"runs":                 {"node", corev1.PodRunning, maxClaims + 1, maxClaims + 1},
		"does not run yet":     {"node", corev1.PodPending, maxClaims + 1, maxClaims + 1},
		"has failed with more": {"node", corev1.PodFailed, maxClaims + 1, 0},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: tt.node, ResourceClaims: make([]corev1.PodResourceClaim, tt.n)}, Status: corev1.PodStatus{Phase: tt.phase}}
		if got := len(Claims(pod)); got != tt.want {
			t.Errorf("%s: %d claims, want %d", name, got, tt.want)
		}
	}
}
