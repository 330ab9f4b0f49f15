package why

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// place asks package placement where a pod lands that waits although its devices are free or allocated.
func (w Cluster) place(ctx context.Context, a *Answer, pod *corev1.Pod) (Cause, error) {
	cluster := placement.Cluster{View: w.View, Claims: w.Claims, Pods: w.Pods, Nodes: w.Nodes, Templates: w.Templates, Groups: w.Groups, Namespaces: w.Namespaces,
		Storage: w.Storage, Patched: w.Patched, IncompletePools: w.IncompletePools, Gates: w.Gates, Steps: placement.ManySteps, Now: w.Now}
	r, err := cluster.Begin().Fits(ctx, pod)
	switch {
	case err != nil:
		return Cause{}, err
	case w.NoGroups && pod.Spec.SchedulingGroup != nil:
		return unknown("PodGroups were not read", "add podgroups, or the permission to list them"), nil
	case len(w.Nodes) == 0:
		return unknown("nodes were not read", "add nodes, or the permission to list them"), nil
	case !r.Lands() && r.Reason.Kind == placement.Resources:
		return w.resources(pod, r), nil
	case !r.Lands() && len(r.Unknown) == 0:
		return w.excluded(pod, r), nil
	case len(r.Unknown) > 0:
		return unknown(strings.Join(r.Unknown, ", ")+" decides, and is not checked", "look at the message of the scheduler, below"), nil
	}
	return w.notTried(a, pod, r), nil
}

func unknown(what, remedy string) Cause {
	return Cause{Kind: Unknown, Message: "unknown: " + what, Remedy: remedy}
}

// notTried is about a pod for which the node of a result is suitable: the last message of the scheduler is older than a
// change, or has a reason that is not known here.
func (w Cluster) notTried(a *Answer, pod *corev1.Pod, r placement.Result) Cause {
	requested := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	reasons := Reasons(a.Scheduler)
	for _, reason := range reasons {
		short, is := strings.CutPrefix(reason.Text, "Insufficient ")
		switch {
		case is && w.PartialPods:
			return w.tooSmall(pod, corev1.ResourceName(short), requested[corev1.ResourceName(short)])
		case reason.Kind == "" || !is && w.PartialPods && reason.Kind != placement.Devices:
			return unknown(fmt.Sprintf("node %s looks suitable, but kube-scheduler reports: %s", r.Node, reason.Text), "look at the conditions and events of the pod")
		}
	}
	switch {
	case a.Scheduler != "" && len(reasons) == 0:
		return unknown("kube-scheduler reports: "+a.Scheduler, "look at the conditions and events of the pod")
	case w.PartialPods:
		return unknown("node "+r.Node+" has the devices, but the pods of other namespaces were not read", "add pods of all namespaces, or the permission to list them")
	}
	c := Cause{Kind: NotTried, Remedy: "check that kube-scheduler runs; its log has the pod", Message: "the pod can run on node " + r.Node + "; kube-scheduler has not tried it yet"}
	if a.Scheduler != "" {
		c.Message = "the pod can run on node " + r.Node + " now; kube-scheduler has not tried it since that changed"
		c.Remedy = "wait some minutes; then check that kube-scheduler runs"
	}
	return c
}

// resources is about nodes that have too little left.
func (w Cluster) resources(pod *corev1.Pod, r placement.Result) Cause {
	requested := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if strings.HasSuffix(r.Reason.Message, "has too little "+string(name)) {
			return w.tooSmall(pod, name, requested[name])
		}
	}
	return w.excluded(pod, r)
}

// kindOf is the cause, and the remedy, of reasons of package placement.
func kindOf(kind placement.Kind) (Kind, string) {
	switch kind {
	case placement.NodeTaint:
		return NodeTaint, "let the pod tolerate the taint, or remove it from the node"
	case placement.Unschedulable:
		return NodeUnschedulable, "uncordon the node when its work is done"
	case placement.NodeSelector:
		return NodeSelector, "correct the node selector or affinity of the pod, or label the node"
	case placement.NodePorts:
		return NodePorts, "end the pod that uses the port, or use another port"
	case placement.Resources:
		return NodeResources, "end other pods on that node"
	case placement.Volume, placement.VolumeElsewhere:
		return VolumeElsewhere, "use a volume that the node with the devices can use"
	case placement.TopologySpread:
		return TopologySpread, "raise maxSkew, or let the pods of the constraint run elsewhere"
	case placement.PodAffinity:
		return PodAffinity, "correct the affinity of the pod, or start the pod that it asks for"
	case placement.PodAntiAffinity:
		return PodAntiAffinity, "end the pod near that node, or correct the anti-affinity"
	case placement.ClaimInUse:
		return ClaimInUse, "use another claim, or end a pod that uses it"
	}
	return Combination, ""
}

// excluded is why the nodes with the devices are excluded.
func (w Cluster) excluded(pod *corev1.Pod, r placement.Result) Cause {
	kind, remedy := kindOf(r.Reason.Kind)
	c := Cause{Kind: kind, Message: r.Reason.Message, Remedy: remedy}
	if r.Reason.Kind == placement.Volume {
		c.Kind, c.Remedy = Volume, "create or correct the PersistentVolumeClaim"
	}
	if r.Reason.Node == "" {
		return c
	}
	switch kind {
	case NodeUnschedulable:
		c.Command = Command("kubectl", "uncordon", r.Reason.Node)
	case NodeTaint:
		w.tolerate(&c, pod, r.Reason.Node)
	}
	return c
}

// tolerate lets the pod tolerate the taints of a node, if it lands then. A taint that Kubernetes sets for the state of the
// node is not one to tolerate.
func (w Cluster) tolerate(c *Cause, pod *corev1.Pod, name string) {
	i := slices.IndexFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return
	}
	var add []corev1.Toleration
	for _, taint := range w.Nodes[i].Spec.Taints {
		switch {
		case strings.HasPrefix(taint.Key, "node.kubernetes.io/"):
			c.Remedy = "repair the node: Kubernetes removes the taint when its state is good"
			return
		case taint.Effect != corev1.TaintEffectPreferNoSchedule:
			add = append(add, corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect})
		}
	}
	editPod(c, pod, "let the pod tolerate the taint", func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, add...) })
}

// A SchedulerReason is a part of the message of kube-scheduler about a pod.
type SchedulerReason struct {
	// Nodes are how many nodes it is about.
	Nodes int    `json:"nodes"`
	Text  string `json:"text"`
	// Kind is that of package placement, empty for a text that is not known.
	Kind placement.Kind `json:"kind,omitempty"`
}

// maxMessage bounds what is read of a message.
const maxMessage = 16 << 10

// Reasons takes the message of kube-scheduler apart: "0/4 nodes are available: 1 cannot allocate all claims, 3 Insufficient
// cpu. preemption: ...". The texts are those of 1.34 to 1.38.
func Reasons(message string) (all []SchedulerReason) {
	_, list, found := strings.Cut(message[:min(len(message), maxMessage)], "nodes are available: ")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, " preemption: ")
	list = strings.TrimSuffix(strings.TrimSpace(list), ".")
	begins := regexp.MustCompile(`(?:^|, )(\d+) `).FindAllStringSubmatchIndex(list, -1)
	for i, at := range begins {
		end := len(list)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		reason := SchedulerReason{Text: list[at[1]:end]}
		if _, err := fmt.Sscan(list[at[2]:at[3]], &reason.Nodes); err != nil {
			continue
		}
		reason.Kind = textKind(reason.Text)
		all = append(all, reason)
	}
	if all == nil && list != "" {
		all = []SchedulerReason{{Text: list, Kind: textKind(list)}}
	}
	return all
}

// textKind is what a reason of kube-scheduler is about.
func textKind(text string) placement.Kind {
	for _, known := range []struct {
		text string
		kind placement.Kind
	}{
		{"were unschedulable", placement.Unschedulable}, {"had untolerated taint", placement.NodeTaint}, {"didn't tolerate", placement.NodeTaint},
		{"didn't match Pod's node affinity/selector", placement.NodeSelector}, {"didn't match the requested node name", placement.NodeSelector},
		{"didn't have free ports", placement.NodePorts}, {"Insufficient ", placement.Resources}, {"Too many pods", placement.Resources},
		{"didn't match PersistentVolume's node affinity", placement.VolumeElsewhere}, {"no available volume zone", placement.VolumeElsewhere},
		{"topology spread constraints", placement.TopologySpread}, {"anti-affinity rules", placement.PodAntiAffinity}, {"pod affinity rules", placement.PodAffinity},
		{"persistentvolumeclaim", placement.Volume}, {"persistent volume", placement.Volume},
		{"cannot allocate all claims", placement.Devices}, {"resourceclaim", placement.Devices}, {"device", placement.Devices}, {"timed out trying to allocate", placement.Devices},
		{"gang", placement.Gang}, {"pod group", placement.Gang}, {"minCount", placement.Gang},
	} {
		if strings.Contains(text, known.text) {
			return known.kind
		}
	}
	return ""
}
