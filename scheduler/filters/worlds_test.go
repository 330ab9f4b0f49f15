package filters

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A maker makes random objects.
type maker struct {
	*rand.Rand
	world *world
	// filter is the only one whose nodes, pods and volumes are to differ.
	filter string
}

// filters are those that are compared, with what makes their pods.
func filters() map[string]func(*maker, *corev1.Pod) {
	return map[string]func(*maker, *corev1.Pod){
		"NodeUnschedulable": (*maker).tolerations, "TaintToleration": (*maker).tolerations, "NodeAffinity": (*maker).nodeAffinity, "NodeName": (*maker).nodeName,
		"NodePorts": (*maker).ports, "NodeResourcesFit": (*maker).requests, "PodTopologySpread": (*maker).spread, "InterPodAffinity": (*maker).podAffinity,
		"VolumeZone": (*maker).volume, "VolumeRestrictions": (*maker).volume,
	}
}

func pick[T any](m *maker, all ...T) T { return all[m.IntN(len(all))] }

func (m *maker) labels() map[string]string {
	all := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if m.IntN(3) > 0 {
			all[key] = pick(m, "x", "y")
		}
	}
	return all
}

func (m *maker) node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: m.labels()}}
	n.Labels[corev1.LabelHostname] = name
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyRegion} {
		if m.IntN(4) > 0 {
			n.Labels[key] = pick(m, "z1", "z2")
		}
	}
	if m.filter != "NodeResourcesFit" {
		return n
	}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(m.IntN(6)), resource.DecimalSI),
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(m.IntN(4000)), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(m.IntN(1<<12)), resource.BinarySI)}
	for _, name := range []corev1.ResourceName{corev1.ResourceEphemeralStorage, "example.com/gpu", "hugepages-2Mi"} {
		if m.IntN(2) == 0 {
			n.Status.Allocatable[name] = *resource.NewQuantity(int64(m.IntN(8)), resource.DecimalSI)
		}
	}
	return n
}

func (m *maker) pod(name string, about func(*maker, *corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(m, "a", "b", "c"), Name: name, UID: types.UID(name), Labels: m.labels()}}
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	about(m, pod)
	return pod
}

// tolerations also makes the taints of the nodes.
func (m *maker) tolerations(pod *corev1.Pod) {
	n := pick(m, m.world.nodes...)
	switch {
	case pod.Name[0] != 'w':
	case m.filter == "NodeUnschedulable":
		n.Spec.Unschedulable = m.IntN(2) == 0
	default:
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: pick(m, "t1", "t2"), Value: pick(m, "", "1", "2"),
			Effect: pick(m, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)})
	}
	for range m.IntN(3) {
		t := corev1.Toleration{Key: pick(m, "t1", "t2", corev1.TaintNodeUnschedulable), Operator: pick(m, "", corev1.TolerationOpExists, corev1.TolerationOpEqual),
			Effect: pick(m, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}
		if t.Operator != corev1.TolerationOpExists {
			t.Value = pick(m, "", "1", "2")
		} else if m.IntN(4) == 0 {
			t.Key = ""
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
}

func (m *maker) nodeName(pod *corev1.Pod) {
	if m.IntN(2) == 0 {
		pod.Spec.NodeName = pick(m, m.world.nodes...).Name
	}
}

func (m *maker) nodeAffinity(pod *corev1.Pod) {
	if m.IntN(3) == 0 {
		pod.Spec.NodeSelector = m.labels()
	}
	if m.IntN(3) == 0 {
		return
	}
	required := &corev1.NodeSelector{}
	for range 1 + m.IntN(2) {
		term := corev1.NodeSelectorTerm{}
		for range m.IntN(3) {
			r := corev1.NodeSelectorRequirement{Key: pick(m, "app", "tier", "none"), Operator: pick(m, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}
			if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
				r.Values = []string{pick(m, "x", "y")}
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if m.IntN(4) == 0 {
			term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(m, m.world.nodes...).Name}}}
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}

func (m *maker) ports(pod *corev1.Pod) {
	port := func() corev1.ContainerPort {
		return corev1.ContainerPort{HostPort: pick(m, int32(0), 80, 81), Protocol: pick(m, "", corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: pick(m, "", "0.0.0.0", "10.0.0.1", "10.0.0.2")}
	}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{port()}
	if m.IntN(3) == 0 {
		init := corev1.Container{Name: "i", Ports: []corev1.ContainerPort{port()}}
		if m.IntN(2) == 0 {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = []corev1.Container{init}
	}
}

func (m *maker) requests(pod *corev1.Pod) {
	list := func() corev1.ResourceList {
		all := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "example.com/gpu", "hugepages-2Mi"} {
			switch {
			case m.IntN(4) > 0:
			case name == corev1.ResourceCPU:
				all[name] = *resource.NewMilliQuantity(int64(m.IntN(2000)), resource.DecimalSI)
			case name == corev1.ResourceMemory:
				all[name] = *resource.NewQuantity(int64(m.IntN(1<<10)), resource.BinarySI)
			default:
				all[name] = *resource.NewQuantity(int64(m.IntN(4)), resource.DecimalSI)
			}
		}
		return all
	}
	pod.Spec.Containers[0].Resources.Requests = list()
	for i := range m.IntN(3) {
		init := corev1.Container{Name: fmt.Sprintf("i%d", i), Resources: corev1.ResourceRequirements{Requests: list()}}
		if m.IntN(2) == 0 {
			init.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	}
	if m.IntN(4) == 0 {
		pod.Spec.Overhead = list()
	}
	if m.IntN(4) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(m.IntN(3000)), resource.DecimalSI)}}
	}
}

func (m *maker) selector() *metav1.LabelSelector {
	switch m.IntN(6) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return nil
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: pick(m, "app", "tier"), Operator: pick(m, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(m, "app", "tier"): pick(m, "x", "y")}}
}

func (m *maker) key() string { return pick(m, corev1.LabelHostname, corev1.LabelTopologyZone, "tier") }

func (m *maker) spread(pod *corev1.Pod) {
	for range 1 + m.IntN(2) {
		c := corev1.TopologySpreadConstraint{MaxSkew: int32(1 + m.IntN(2)), TopologyKey: m.key(), WhenUnsatisfiable: pick(m, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway), LabelSelector: m.selector(),
			NodeAffinityPolicy: pick(m, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)),
			NodeTaintsPolicy:   pick(m, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore))}
		if m.IntN(4) == 0 {
			c.MinDomains = ptr.To(int32(1 + m.IntN(4)))
		}
		if m.IntN(4) == 0 && c.LabelSelector != nil {
			c.MatchLabelKeys = []string{"tier"}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

func (m *maker) podAffinity(pod *corev1.Pod) {
	terms := func() (all []corev1.PodAffinityTerm) {
		for range m.IntN(3) {
			t := corev1.PodAffinityTerm{TopologyKey: m.key(), LabelSelector: m.selector()}
			if m.IntN(3) == 0 {
				t.Namespaces = []string{pick(m, "a", "b")}
			}
			if m.IntN(3) == 0 {
				t.NamespaceSelector = m.selector()
			}
			all = append(all, t)
		}
		return all
	}
	pod.Spec.Affinity = &corev1.Affinity{}
	if m.IntN(2) == 0 {
		pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}
	}
	if m.IntN(2) == 0 {
		pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}
	}
}

// storage makes volumes, and a claim of each for each namespace.
func (m *maker) storage() {
	for i := range 3 {
		for _, namespace := range []string{"a", "b", "c"} {
			name := fmt.Sprintf("v%d", i)
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + name, Labels: map[string]string{}}}
			for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone} {
				if m.filter == "VolumeZone" && m.IntN(3) == 0 {
					v.Labels[key] = pick(m, "z1", "z2", "z1__z2", "z1__")
				}
			}
			c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
				Spec: corev1.PersistentVolumeClaimSpec{VolumeName: v.Name}}
			if m.filter == "VolumeRestrictions" && m.IntN(2) == 0 {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			}
			m.world.volumes, m.world.volumeClaims = append(m.world.volumes, v), append(m.world.volumeClaims, c)
		}
	}
}

func (m *maker) volume(pod *corev1.Pod) {
	name := fmt.Sprintf("v%d", m.IntN(3))
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
}
