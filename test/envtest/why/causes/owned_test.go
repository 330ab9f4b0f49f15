package causes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/foresight/why"
)

// An owned is a pod that a workload owns, and that waits for one reason.
type owned struct {
	name string
	kind why.Kind
	// command is how the command begins.
	command string
	build   func(*world)
}

// TestOwners: a controller would create a changed or deleted pod again as it was. The remedy,
// carried out as printed, changes its owner, and kube-scheduler places the pod that the
// controller then creates.
func TestOwners(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	path := programs(t)
	for _, c := range append(changed(), ended()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, name: c.name, client: client, dynamic: dynamicClient, path: path}
			w.create(`{apiVersion: v1, kind: Namespace, metadata: {name: $}}` + "\n---\n" +
				`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: $}, spec: {selectors: [{cel: {expression: 'device.driver == "$.example.com"'}}]}}`)
			c.build(w)
			command := w.cause(c)
			if !strings.HasPrefix(command, c.command) {
				w.Fatalf("the command is\n%s\nwant\n%s …", command, c.command)
			}
			w.shell(command)
			w.placed()
		})
	}
}

// cause waits until the pod waits for the reason, and returns the command against it.
func (w *world) cause(c owned) (command string) {
	w.eventually(func() (bool, string) {
		pod := w.workload(func(p *corev1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil })
		if pod == nil {
			return false, "no pod waits"
		}
		out, _ := w.why("pod/"+pod.Name, "-o", "json")
		answer := why.Answer{}
		w.must(json.Unmarshal([]byte(out), &answer))
		if answer.Cause == nil || answer.Cause.Kind != c.kind {
			return false, "another cause, or none: " + out
		}
		w.Logf("%s\n  %s: %s", answer.Cause.Message, answer.Cause.Remedy, answer.Cause.Command)
		command = answer.Cause.Command
		return true, ""
	})
	return command
}

// placed waits until each pod of the waiting workload has a node.
func (w *world) placed() {
	w.eventually(func() (bool, string) {
		if w.workload(func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }) != nil {
			return false, "a pod still waits"
		}
		return w.workload(func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }) != nil, "no pod runs"
	})
}

// workload returns a pod of the waiting workload.
func (w *world) workload(include func(*corev1.Pod) bool) *corev1.Pod {
	pods, err := w.client.CoreV1().Pods(w.name).List(w.Context(), metav1.ListOptions{LabelSelector: "app=waits"})
	w.must(err)
	for i := range pods.Items {
		if include(&pods.Items[i]) {
			return &pods.Items[i]
		}
	}
	return nil
}

// workload is a manifest of a workload with one pod; spec are more fields of the pod, beginning
// with a comma.
func workload(kind, name, resources, spec string) string {
	version, selector, more := "apps/v1", "selector: {matchLabels: {app: "+name+"}}, ", ""
	switch kind {
	case "Job":
		version, selector, more = "batch/v1", "backoffLimit: 0, ", ", restartPolicy: Never"
	case "StatefulSet":
		selector += "serviceName: " + name + ", "
	}
	return fmt.Sprintf("\n---\n{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: {%stemplate: {metadata: {labels: {app: %s}}, spec: {containers: [{name: train, image: registry.example.com/train:1%s}]%s%s}}}}",
		version, kind, name, selector, name, resources, more, spec)
}

// extended is an extended resource, and the class that declares it if one must: kube-scheduler 1.34
// does not know the names of classes, kubernetes#133366.
func extended() (name, class string) {
	if minor() != "1.34" {
		return "deviceclass.resource.kubernetes.io/$", ""
	}
	return "$.example.com/gpu", "\n---\n" + `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: $-declared}, spec: {extendedResourceName: $.example.com/gpu, selectors: [{cel: {expression: 'device.driver == "$.example.com"'}}]}}`
}

func claimed(reference string) string { return ", resourceClaims: [{name: gpu, " + reference + "}]" }

// changed are the cases in which another pod is needed.
func changed() []owned {
	const (
		here      = ", nodeSelector: {kubernetes.io/hostname: node-0}"
		other     = ", schedulerName: gpu-scheduler"
		templated = "resourceClaimTemplateName: train"
	)
	misspelt := func(kind string) func(*world) {
		return all(slice("node-0", gpu("gpu-0", "A100")), template("trains", ""), workload(kind, "waits", "", claimed(templated)))
	}
	mismatch := func(kind string) func(*world) {
		return all(slice("node-1", gpu("gpu-0", "A100")), template("train", ""), workload(kind, "waits", "", here+claimed(templated)))
	}
	resource, declared := extended()
	return []owned{
		{"deployment-template", why.TemplateMissing, "kubectl patch deployment waits -n deployment-template -p ", misspelt("Deployment")},
		{"job-template", why.TemplateMissing, "kubectl patch job waits -n job-template -p ", misspelt("Job")},
		{"statefulset-template", why.TemplateMissing, "kubectl patch statefulset waits -n statefulset-template -p ", misspelt("StatefulSet")},
		{"replicaset-template", why.TemplateMissing, "kubectl patch replicaset waits -n replicaset-template -p ", misspelt("ReplicaSet")},
		{"deployment-node", why.WrongNode, "kubectl patch deployment waits -n deployment-node -p ", mismatch("Deployment")},
		{"job-node", why.WrongNode, "kubectl patch job waits -n job-node -p ", mismatch("Job")},
		{"statefulset-node", why.WrongNode, "kubectl patch statefulset waits -n statefulset-node -p ", mismatch("StatefulSet")},
		{"deployment-scheduler", why.SchedulerMissing, "kubectl patch deployment waits -n deployment-scheduler -p ",
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ""), workload("Deployment", "waits", "", other+claimed(templated)))},
		{"deployment-cpu", why.NodeResources, "kubectl patch deployment waits -n deployment-cpu -p ",
			// The case cpu takes all of node-0.
			all(slice("node-1", gpu("gpu-0", "A100")), template("train", ""), workload("Deployment", "waits", `, resources: {limits: {cpu: "100"}}`, claimed(templated)))},
		{"deployment-extended", why.CountTooLarge, "kubectl patch deployment waits -n deployment-extended -p ",
			all(slice("node-0", gpu("gpu-0", "A100")), declared, workload("Deployment", "waits", `, resources: {limits: {`+resource+`: "2"}}`, ""))},
		{"deployment-twice", why.ClaimNamedTwice, "kubectl patch deployment waits -n deployment-twice -p ",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), workload("Deployment", "waits", ", resources: {claims: [{name: gpu}, {name: again}]}",
				", resourceClaims: [{name: gpu, resourceClaimName: wants}, {name: again, resourceClaimName: wants}]"))},
		{"deployment-count", why.CountTooLarge, "kubectl patch resourceclaimtemplate train -n deployment-count --type=json -p ",
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ", count: 2"), workload("Deployment", "waits", "", claimed(templated)))},
		{"job-count", why.CountTooLarge, "kubectl patch resourceclaimtemplate train -n job-count --type=json -p ",
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ", count: 2"), workload("Job", "waits", "", claimed(templated)))},
	}
}

// ended are the cases in which another workload has the device.
func ended() []owned {
	held := func(kind string) func(*world) {
		return func(w *world) {
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ""), workload(kind, "holds", "", claimed("resourceClaimTemplateName: train")))(w)
			w.held("holds")
			all(workload("Deployment", "waits", "", claimed("resourceClaimTemplateName: train")))(w)
		}
	}
	return []owned{
		{"held-by-deployment", why.DevicesTaken, "kubectl scale deployment holds -n held-by-deployment --current-replicas=1 --replicas=0", held("Deployment")},
		{"held-by-statefulset", why.DevicesTaken, "kubectl scale statefulset holds -n held-by-statefulset --current-replicas=1 --replicas=0", held("StatefulSet")},
		{"held-by-job", why.DevicesTaken, "kubectl patch job holds -n held-by-job --type=merge -p ", held("Job")},
		{"rollout", why.DevicesTaken, "kubectl patch deployment waits -n rollout -p ", func(w *world) {
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ""), workload("Deployment", "waits", "", claimed("resourceClaimTemplateName: train")))(w)
			w.held("waits")
			w.shell("kubectl set env deployment/waits -n rollout STEP=2")
		}},
	}
}

// held waits until a pod of a workload has its device.
func (w *world) held(app string) {
	w.eventually(func() (bool, string) {
		pods, err := w.client.CoreV1().Pods(w.name).List(w.Context(), metav1.ListOptions{LabelSelector: "app=" + app, FieldSelector: "status.phase=Running"})
		w.must(err)
		return len(pods.Items) > 0, "no pod of " + app + " runs"
	})
}
