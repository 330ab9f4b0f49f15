package placement

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// near is a pod with the label app=db, which its affinity names by the key of a topology.
func near(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, Labels: map[string]string{"app": "db"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	change(pod)
	return pod
}

func terms(key string, of *metav1.LabelSelector) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, NamespaceSelector: of}}
}

// TestVerdicts: what kube-scheduler's other filters decide is decided; what is not checked is unknown, with its name.
func TestVerdicts(t *testing.T) {
	zone := func(name, zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}}
	}
	runs := near("db-0", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
	volume := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
	}
	storage := Storage{
		VolumeClaims: []*corev1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "bound", Annotations: map[string]string{bindCompleted: "yes"}}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "unbound"}}},
		Volumes: []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n9"}}}}}}}}}},
	}
	for name, c := range map[string]struct {
		pod  func(*corev1.Pod)
		want Verdict
		text string
	}{
		"anti-affinity in the only zone": {func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelTopologyZone, nil)}}
		}, Waits, "anti-affinity"},
		"anti-affinity to a host": {func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelHostname, nil)}}
		}, Lands, ""},
		"affinity by labels of namespaces": {func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(corev1.LabelHostname, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}})}}
		}, Unknown, "labels of namespaces"},
		"spread over zones that are not there": {func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, MinDomains: ptr.To[int32](2), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
		}, Waits, "maxSkew is 1"},
		"a volume elsewhere": {volume("bound"), Waits, "PersistentVolume pv"}, "a volume that is not bound": {volume("unbound"), Unknown, volumesUnbound},
		"a volume that does not exist": {volume("none"), Waits, "does not exist"},
		"another scheduler":            {func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" }, Unknown, "scheduler volcano"},
		"a priority that preempts": {func(p *corev1.Pod) {
			p.Spec.Priority = ptr.To[int32](9)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, Unknown, "preemption"},
	} {
		cluster := Cluster{Nodes: []*corev1.Node{zone("n1", "z1"), zone("n2", "z1")}, Pods: []*corev1.Pod{runs}, Storage: storage}
		answer, err := cluster.Predict(t.Context(), Change{After: cluster, Arriving: []*corev1.Pod{near("db-1", c.pod)}})
		if err != nil {
			t.Fatal(err)
		}
		m := answer.Moves[0]
		if m.Verdict != c.want || c.text != "" && (m.Reason == nil || !strings.Contains(m.Reason.Message, c.text)) {
			t.Errorf("%s: %s, %v; want %s: %s", name, m.Verdict, m.Reason, c.want, c.text)
		}
		if unknown := m.Verdict == Unknown; unknown != (answer.Unknown() == 1) || unknown != (len(m.Unchecked) > 0) || unknown && (answer.Least != 0 || answer.Most != 1) {
			t.Errorf("%s: %+v", name, answer)
		}
	}
}
