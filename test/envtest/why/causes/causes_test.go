package causes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/foresight/why"
)

// A waiting is a pod that waits for one reason.
type waiting struct {
	name string
	kind why.Kind
	// first is in the first line.
	first string
	build func(*world)
	// remedy carries out a remedy that no command does; nil if there must be a command.
	remedy func(*world)
}

// TestCauses: kube-scheduler leaves the pod pending, `why` names the cause, and its remedy
// places the pod.
func TestCauses(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	path := programs(t)
	for _, cases := range [][]waiting{claims(), devices(), shared(), pods()} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if reason := lacking()[c.name]; reason != "" {
					t.Skip(reason)
				}
				w := &world{T: t, name: c.name, client: client, dynamic: dynamicClient, path: path}
				w.create(`{apiVersion: v1, kind: Namespace, metadata: {name: $}}` + "\n---\n" +
					`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: $}, spec: {selectors: [{cel: {expression: 'device.driver == "$.example.com"'}}]}}`)
				c.build(w)
				w.check(c)
			})
		}
	}
}

// lacking are the cases that the minor cannot have, with the reason.
func lacking() map[string]string {
	all := map[string]string{}
	if slices.Contains([]string{"1.34", "1.35", "1.36"}, minor()) {
		all["group"] = "PodGroups of scheduling.k8s.io/v1beta1 are in 1.37 only"
	}
	if minor() == "1.34" {
		all["incomplete"] = "kube-scheduler 1.34 allocates devices of incomplete pools"
		all["distinct"] = "kube-scheduler 1.34 ignores distinctAttribute: it compares pointers instead of values"
	}
	return all
}

// check asks why the pod waits, carries the remedy out, and waits until it runs.
func (w *world) check(c waiting) {
	var answer why.Answer
	w.eventually(func() (bool, string) {
		if pod := w.pod("waits"); pod == nil || pod.Spec.NodeName != "" {
			w.Fatalf("the pod does not wait: %+v", pod)
		}
		out, code := w.why("pod/waits", "-o", "json")
		answer = why.Answer{}
		w.must(json.Unmarshal([]byte(out), &answer))
		return code == 1 && answer.Cause != nil && answer.Cause.Kind == c.kind && w.reported(c.kind), "another cause, or none: " + out
	})
	text, code := w.why("pod/waits")
	lines := strings.Split(text, "\n")
	if code != 1 || len(lines) < 2 || !strings.Contains(lines[0], c.first) {
		w.Fatalf("exit code %d, the first line must have %q:\n%s", code, c.first, text)
	}
	w.Logf("%s\n%s", lines[0], lines[1])
	if notMade := len(answer.Claims) > 0 && answer.Claims[0].Verdict == why.NotMade && c.kind != why.ClaimMissing; notMade && !strings.Contains(text, "FailedResourceClaimCreation: PodResourceClaim gpu: ") {
		w.Errorf("the event is missing:\n%s", text)
	}
	if !strings.HasPrefix(lines[1], "  to fix it: ") || !strings.HasSuffix(lines[1], answer.Cause.Command) {
		w.Errorf("the second line must be the remedy %q:\n%s", answer.Cause.Command, text)
	}
	switch {
	case c.remedy != nil && answer.Cause.Command == "":
		c.remedy(w)
	case c.remedy == nil && answer.Cause.Command != "":
		w.shell(answer.Cause.Command)
	default:
		w.Fatalf("the command is %q:\n%s", answer.Cause.Command, text)
	}
	w.runs("waits")
}

// reported reports whether kube-scheduler or kube-controller-manager has refused the pod:
// otherwise it waits only because it is new.
func (w *world) reported(kind why.Kind) bool {
	switch kind {
	case why.SchedulerMissing, why.BindingCondition, why.GroupIncomplete, why.ClaimMissing:
		return true // no component reports these in the conditions of the pod
	case why.TemplateMissing, why.QuotaExceeded, why.AdminAccessRefused:
		events, err := w.client.CoreV1().Events(w.name).List(w.Context(), metav1.ListOptions{FieldSelector: "reason=FailedResourceClaimCreation"})
		w.must(err)
		return len(events.Items) > 0
	}
	for _, condition := range w.pod("waits").Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// slice publishes a complete pool of a node.
func slice(node, devices string) string {
	return `
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: $-` + node + `}
spec: {driver: $.example.com, nodeName: ` + node + `, pool: {name: $-` + node + `, generation: 1, resourceSliceCount: 1}, devices: [` + devices + `]}`
}

// gpu is a device of a model.
func gpu(name, model string) string {
	return `{name: ` + name + `, attributes: {model: {string: ` + model + `}}}`
}

// claim is the claim of the pod, with one request.
func claim(name, exactly string) string {
	return `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: $` + exactly + `}}]}}`
}

func claimSpec(name, devices string) string {
	return `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `}
spec: {devices: ` + devices + `}`
}

func template(name, exactly string) string {
	return `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: ` + name + `}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: $` + exactly + `}}]}}}`
}

// pod is a pod with a claim; spec are more fields.
func pod(name, reference, spec string) string {
	return podOf(name, spec+`, resourceClaims: [{name: gpu, `+reference+`}]`, "")
}

func podOf(name, spec, resources string) string {
	return `
---
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec: {containers: [{name: train, image: registry.example.com/train:1` + resources + `}]` + spec + `}`
}

func selector(expression string) string {
	return `, selectors: [{cel: {expression: '` + expression + `'}}]`
}

// all joins the parts of a manifest.
func all(parts ...string) func(*world) {
	return func(w *world) { w.create(strings.TrimPrefix(strings.Join(parts, ""), "\n---\n")) }
}

const named = "resourceClaimName: "

func devices() []waiting {
	const model = `device.attributes["$.example.com"].model == `
	return []waiting{
		{"class", why.ClassMissing, `DeviceClass classs does not exist; did you mean "class"?`,
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", "s"), pod("waits", named+"wants", "")), nil},
		{"alternatives", why.ClassMissing, `DeviceClass alternativess does not exist; did you mean "alternatives"?`,
			all(slice("node-0", gpu("gpu-0", "A100")), pod("waits", named+"wants", ""),
				claimSpec("wants", `{requests: [{name: gpu, firstAvailable: [{name: best, deviceClassName: $s}, {name: other, deviceClassName: $}]}]}`)), nil},
		{"typo", why.NoDevices, "DeviceClass typo-typo selects none of the ",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", "-typo"), pod("waits", named+"wants", ""), `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: $-typo}
spec: {selectors: [{cel: {expression: 'device.driver == "$.example.org"'}}]}`), nil},
		{"number", why.SelectorError, "selector 0 of DeviceClass number-number fails on gpu-0 on node-0, and kube-scheduler stops: ",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", "-number"), pod("waits", named+"wants", ""), `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: $-number}
spec: {selectors: [{cel: {expression: 'device.driver == "$.example.com" && device.attributes["$.example.com"].model > 3'}}]}`), nil},
		{"selector", why.SelectorFalse, "model is A100×2, T4×1: the selector asks for H100",
			all(slice("node-0", gpu("gpu-0", "A100")+","+gpu("gpu-1", "T4")+","+gpu("gpu-2", "A100")), claim("wants", selector(model+`"H100"`)), pod("waits", named+"wants", "")), nil},
		{"failing", why.SelectorError, "selector 0 of request gpu fails on gpu-0 on node-0, and kube-scheduler stops: no such key: model",
			all(slice("node-0", "{name: gpu-0},"+gpu("gpu-1", "A100")), claim("wants", selector(model+`"A100"`)), pod("waits", named+"wants", "")), nil},
		{"capacity", why.CapacityTooLarge, "request gpu asks for 80Gi memory; the most that a device has is 40Gi (gpu-0 on node-0)",
			all(slice("node-0", `{name: gpu-0, capacity: {memory: {value: 40Gi}}}`), claim("wants", ", capacity: {requests: {memory: 80Gi}}"), pod("waits", named+"wants", "")), nil},
		{"count", why.CountTooLarge, "request gpu asks for 3 devices; at most 2 can be allocated on one node (node-0)",
			all(slice("node-0", gpu("gpu-0", "A100")+","+gpu("gpu-1", "A100")), slice("node-1", gpu("gpu-0", "A100")), claim("wants", ", count: 3"), pod("waits", named+"wants", "")), nil},
		{"match", why.MatchAttribute, "constraint matchAttribute match.example.com/numa forbids the pair gpu-0, nic-0: numa is 0, 1",
			all(slice("node-0", `{name: gpu-0, attributes: {kind: {string: gpu}, numa: {int: 0}}}, {name: nic-0, attributes: {kind: {string: nic}, numa: {int: 1}}}`), pod("waits", named+"wants", ""),
				claimSpec("wants", `{requests: [{name: gpu, exactly: {deviceClassName: $`+selector(`device.attributes["$.example.com"].kind == "gpu"`)+`}}, {name: nic, exactly: {deviceClassName: $`+
					selector(`device.attributes["$.example.com"].kind == "nic"`)+`}}], constraints: [{matchAttribute: $.example.com/numa}]}`)), nil},
		{"distinct", why.DistinctAttribute, "constraint distinctAttribute distinct.example.com/model forbids the pair gpu-0, gpu-1: model is A100, A100",
			all(slice("node-0", gpu("gpu-0", "A100")+","+gpu("gpu-1", "A100")), pod("waits", named+"wants", ""),
				claimSpec("wants", `{requests: [{name: a, exactly: {deviceClassName: $}}, {name: b, exactly: {deviceClassName: $}}], constraints: [{distinctAttribute: $.example.com/model}]}`)), nil},
		{"tainted", why.TaintNotTolerated, "gpu-0 on node-0 would fit, but the claim does not tolerate taint example.com/suspect:NoSchedule (rule/taint-gpu-0-",
			func(w *world) {
				all(slice("node-0", gpu("gpu-0", "A100")))(w)
				w.shell("dra-steward taint tainted.example.com/tainted-node-0/gpu-0 example.com/suspect:NoSchedule")
				all(claim("wants", ""), pod("waits", named+"wants", ""))(w)
			}, nil},
		{"rule", why.TaintNotTolerated, "gpu-0 on node-0 would fit, but the claim does not tolerate taint example.com/repair=4711:NoExecute (rule/rule)",
			all(slice("node-0", gpu("gpu-0", "A100")), `
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: $}
spec: {deviceSelector: {driver: $.example.com}, taint: {key: example.com/repair, value: "4711", effect: NoExecute}}`,
				claim("wants", ""), pod("waits", named+"wants", "")), nil},
		{"hot", why.TaintNotTolerated, "gpu-0 on node-0 would fit, but the claim does not tolerate taint hot.example.com/hot:NoSchedule (driver/hot.example.com)",
			all(slice("node-0", `{name: gpu-0, taints: [{key: $.example.com/hot, effect: NoSchedule}]}`), claim("wants", ""), pod("waits", named+"wants", "")), nil},
		{"taken", why.DevicesTaken, "gpu-0 on node-0 is allocated to claim taken/has, used by pod holds",
			func(w *world) {
				all(slice("node-0", gpu("gpu-0", "A100")), claim("has", ""), pod("holds", named+"has", ""))(w)
				w.runs("holds")
				all(claim("wants", ""), pod("waits", named+"wants", ""))(w)
			}, nil},
		{"incomplete", why.IncompletePool, "pool incomplete-node-0 of driver incomplete.example.com is incomplete: 1 of 2 slices published",
			all(strings.ReplaceAll(slice("node-0", gpu("gpu-0", "A100")), "resourceSliceCount: 1", "resourceSliceCount: 2"), claim("wants", ""), pod("waits", named+"wants", "")),
			all(`
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: $-second}
spec: {driver: $.example.com, nodeName: node-0, pool: {name: $-node-0, generation: 1, resourceSliceCount: 2}, devices: [{name: gpu-1}]}`)},
		{"mismatch", why.WrongNode, "2 of 2 A100 devices are free, none on the nodes where the pod may run (nodeSelector kubernetes.io/hostname=node-0)",
			all(slice("node-1", gpu("gpu-0", "A100")+","+gpu("gpu-1", "A100")), claim("wants", selector(model+`"A100"`)), pod("waits", named+"wants", ", nodeSelector: {kubernetes.io/hostname: node-0}")), nil},
		{"bound", why.WrongNode, "claim has is allocated on node-1, where the pod cannot run (nodeSelector kubernetes.io/hostname=node-0)",
			func(w *world) {
				all(slice("node-1", gpu("gpu-0", "A100")), claim("has", ""), pod("holds", named+"has", ""))(w)
				w.runs("holds")
				all(pod("waits", named+"has", ", nodeSelector: {kubernetes.io/hostname: node-0}"))(w)
			}, nil},
		{"affinity", why.WrongNode, "1 of 1 affinity devices are free, none on the nodes where the pod may run (its node affinity)",
			all(slice("node-1", gpu("gpu-0", "A100")), claim("wants", ""), pod("waits", named+"wants",
				", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-0]}]}]}}}")), nil},
	}
}

func claims() []waiting {
	const templated = "resourceClaimTemplateName: "
	return []waiting{
		{"template", why.TemplateMissing, `ResourceClaimTemplate train does not exist; did you mean "trains"?`,
			all(slice("node-0", gpu("gpu-0", "A100")), template("trains", ""), pod("waits", templated+"train", "")), nil},
		{"no-template", why.TemplateMissing, "ResourceClaimTemplate train does not exist",
			all(slice("node-0", gpu("gpu-0", "A100")), pod("waits", templated+"train", "")), all(template("train", ""))},
		{"quota", why.QuotaExceeded, "ResourceQuota claims refuses the claim: requested count/resourceclaims.resource.k8s.io=1, used count/resourceclaims.resource.k8s.io=1, limited to count/resourceclaims.resource.k8s.io=1",
			func(w *world) {
				counted := func(of func(corev1.ResourceQuotaStatus) corev1.ResourceList) func() (bool, string) {
					return func() (bool, string) {
						quota, err := w.client.CoreV1().ResourceQuotas(w.name).Get(w.Context(), "claims", metav1.GetOptions{})
						w.must(err)
						n := of(quota.Status)["count/resourceclaims.resource.k8s.io"]
						return n.Value() == 1, fmt.Sprintf("the quota counts %+v", quota.Status)
					}
				}
				all(slice("node-0", gpu("gpu-0", "A100")), `
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: claims}
spec: {hard: {count/resourceclaims.resource.k8s.io: "1"}}`)(w)
				// A claim from before the quota may be counted minutes later.
				w.eventually(counted(func(s corev1.ResourceQuotaStatus) corev1.ResourceList { return s.Hard }))
				used := counted(func(s corev1.ResourceQuotaStatus) corev1.ResourceList { return s.Used })
				w.eventually(func() (bool, string) {
					is, text := used()
					if !is { // the API server may not know the quota yet
						if err := w.client.ResourceV1().ResourceClaims(w.name).Delete(w.Context(), "first", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
							w.must(err)
						}
						all(claim("first", ""))(w)
					}
					return is, text
				})
				all(template("train", ""), pod("waits", templated+"train", ""))(w)
			}, nil},
		{"claim", why.ClaimMissing, `ResourceClaim want does not exist; did you mean "wants"?`,
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), pod("waits", named+"want", "")), nil},
		{"no-claim", why.ClaimMissing, "ResourceClaim wants does not exist",
			all(slice("node-0", gpu("gpu-0", "A100")), pod("waits", named+"wants", "")), all(claim("wants", ""))},
		{"twice", why.ClaimNamedTwice, "the pod has claim wants under two names, gpu and again; kube-scheduler cannot reserve a claim twice for a pod",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), podOf("waits", ", resourceClaims: [{name: gpu, resourceClaimName: wants}, {name: again, resourceClaimName: wants}]", ", resources: {claims: [{name: gpu}, {name: again}]}")), nil},
		{"admin", why.AdminAccessRefused, "ResourceClaimTemplate train requests admin access, which namespace admin is not allowed to",
			func(w *world) {
				w.shell("kubectl label namespace admin resource.kubernetes.io/admin-access=true")
				all(slice("node-0", gpu("gpu-0", "A100")), template("train", ", adminAccess: true"))(w)
				w.shell("kubectl label namespace admin resource.kubernetes.io/admin-access-")
				all(pod("waits", templated+"train", ""))(w)
			}, nil},
		{"generated", why.CountTooLarge, "request gpu asks for 2 devices; at most 1 can be allocated on one node (node-0)",
			all(slice("node-0", gpu("gpu-0", "A100")), template("train", ", count: 2"), pod("waits", templated+"train", "")), nil},
	}
}
