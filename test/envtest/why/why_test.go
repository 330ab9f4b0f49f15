package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const (
	driver    = "gpu.example.com"
	namespace = "team-a"
)

// must is for what has no reason to fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func device(name, model string, taints ...resourceapi.DeviceTaint) resourceapi.Device {
	return resourceapi.Device{Name: name, Taints: taints,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}}
}

// publish makes the devices and the class.
func publish(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	must(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	must(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}}, metav1.CreateOptions{}))(t)
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	must(c.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
	pool := func(name, node string, slices int64, devices ...resourceapi.Device) {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Driver, s.Spec.NodeName = driver, &node
		s.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: slices}
		s.Spec.Devices = devices
		must(c.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{}))(t)
	}
	hot := resourceapi.DeviceTaint{Key: "gpu.example.com/hot", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	pool("whole", "node-0", 1, device("free", "free"), device("single", "single"), device("tainted", "tainted", hot), device("two", "pair"))
	pool("half", "node-0", 2, device("half", "half"), device("spare", "spare"))
	pool("other", "node-1", 1, device("far", "far"))
}

// submit makes a claim of a class with a selector, and a pod that uses it.
func submit(t *testing.T, c kubernetes.Interface, namespace, name, class, expression string, change func(*resourceapi.ExactDeviceRequest, *corev1.Pod)) {
	t.Helper()
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: class}
	r.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	if change != nil {
		change(r, pod)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: r}}
	must(c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	must(c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
}

// judged waits until the scheduler has placed a pod or, if it is to refuse it, has said why: it can say something else
// before it knows all devices.
func judged(t *testing.T, c kubernetes.Interface, namespace, name, refusal string) (node string) {
	t.Helper()
	message := ""
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		node, message = pod.Spec.NodeName, ""
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				message = condition.Message
			}
		}
		return node != "" || refusal != "" && strings.Contains(message, refusal), nil
	}); err != nil || (node == "") != (refusal != "") {
		t.Fatalf("the scheduler: pod %s has node %q, %q; expected %q: %v", name, node, message, refusal, err)
	}
	return node
}

// run runs the program and returns what it writes, with its exit code.
func run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), args, cmdutil.Streams{Out: &stdout, Err: &stderr})
	if code == cmdutil.ExitFailed {
		return stderr.String(), code
	}
	return stdout.String(), code
}

const model = `device.attributes["gpu.example.com"].model == `

// A waiting is a pod with a claim, and what is to be said of it.
type waiting struct {
	name, class, expression string
	change                  func(*resourceapi.ExactDeviceRequest, *corev1.Pod)
	scheduler               string // what it says; empty if the pod runs
	reason, message         string
}

// TestWhy: of claims that fail for one reason each the scheduler says that they do, and
// why says the same and the reason.
func TestWhy(t *testing.T) {
	c := must(kubernetes.NewForConfig(cluster.Config()))(t)
	publish(t, c)
	submit(t, c, "team-b", "holder", "gpu", model+`"single"`, nil)
	judged(t, c, "team-b", "holder", "")
	cases := []waiting{
		{"fine", "gpu", model + `"free"`, nil, "", "", "allocated: gpu.example.com/whole/free"},
		{"no-class", "none", "true", nil, "device class none does not exist", "", `there is no DeviceClass "none"`},
		{"no-model", "gpu", model + `"H100"`, nil, "cannot allocate all claims", "RequestSelector", "selector 0 is false: " + model + `"H100"`},
		{"no-attribute", "gpu", `device.attributes["gpu.example.com"].missing == "x"`, nil, "no such key: missing", "RequestSelectorError", "no such key: missing"},
		{"tainted", "gpu", model + `"tainted"`, nil, "cannot allocate all claims", "Tainted", "taint gpu.example.com/hot:NoSchedule of driver/gpu.example.com is not tolerated"},
		{"taken", "gpu", model + `"single"`, nil, "cannot allocate all claims", "Taken", "held by claim team-b/holder (pod holder)"},
		{"incomplete", "gpu", model + `"half"`, nil, "cannot allocate all claims", "PoolIncomplete", "pool incomplete: 1 of 2 slices published"},
		{"count", "gpu", model + `"pair"`, func(r *resourceapi.ExactDeviceRequest, _ *corev1.Pod) { r.Count = 2 }, "cannot allocate all claims", "", "request gpu asks for 2 devices; at most 1 can be allocated on one node (node-0)"},
		{"elsewhere", "gpu", model + `"far"`, func(_ *resourceapi.ExactDeviceRequest, pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "node-0"}
		}, "cannot allocate all claims", "NodeMismatch", "1 of 1 far devices are free, none on the nodes where the pod may run (nodeSelector kubernetes.io/hostname=node-0)"},
	}
	if cluster.Minor() == "1.34" {
		// That scheduler does not wait until a pool is complete.
		i := slices.IndexFunc(cases, func(c waiting) bool { return c.name == "incomplete" })
		cases[i].scheduler, cases[i].reason, cases[i].message = "", "", "allocated: gpu.example.com/half/half"
	}
	for _, tt := range cases {
		submit(t, c, namespace, tt.name, tt.class, tt.expression, tt.change)
	}
	kubeconfig := must(cluster.UserKubeconfig("admin", "system:masters"))(t)
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			node := judged(t, c, namespace, tt.name, tt.scheduler)
			for _, argument := range []string{"claim/" + tt.name, "pod/" + tt.name} {
				out, code := run(t, "why", argument, "-n", namespace, "--kubeconfig", kubeconfig)
				if (code == cmdutil.ExitClean) != (node != "") || code == cmdutil.ExitFailed {
					t.Errorf("%s: exit code %d, the pod's node is %q", argument, code, node)
				}
				if !strings.Contains(out, tt.message) || !strings.Contains(out, tt.reason) {
					t.Errorf("%s: does not say %q %q:\n%s", argument, tt.reason, tt.message, out)
				}
				if tt.scheduler != "" && !strings.Contains(out, "last scheduler message for pod team-a/"+tt.name) {
					t.Errorf("%s: does not say what the scheduler said:\n%s", argument, out)
				}
			}
		})
	}
	t.Run("unused", func(t *testing.T) { testIncomplete(t, c, kubeconfig) })
	t.Run("asker", func(t *testing.T) { testAsker(t, c) })
	t.Run("gates", func(t *testing.T) { testGates(t, kubeconfig) })
	t.Run("devices", func(t *testing.T) { testDevices(t, kubeconfig) })
}

// testIncomplete asks about a claim for a device of the incomplete pool that the
// scheduler does not know yet: why says how it decides.
func testIncomplete(t *testing.T, c kubernetes.Interface, kubeconfig string) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "unused"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: model + `"spare"`}}}}}}
	must(c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	wantCode, want := cmdutil.ExitFindings, "PoolIncomplete"
	if cluster.Minor() == "1.34" {
		wantCode, want = cmdutil.ExitClean, "kube-scheduler before 1.35 does not wait for them"
	}
	out, code := run(t, "why", "claim/unused", "-n", namespace, "--kubeconfig", kubeconfig)
	if code != wantCode || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want %d with %q:\n%s", code, wantCode, want, out)
	}
}

// testAsker asks as a user who may read claims and pods of one namespace only.
func testAsker(t *testing.T, c kubernetes.Interface) {
	read := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "watch"}}
	}
	subject := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}}
	meta := metav1.ObjectMeta{Name: "tenant"}
	must(c.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{read("resource.k8s.io", "resourceclaims"), read("", "pods")}}, metav1.CreateOptions{}))(t)
	must(c.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"}}, metav1.CreateOptions{}))(t)
	kubeconfig := must(cluster.UserKubeconfig("tenant"))(t)
	if out, code := run(t, "why", "claim/taken", "-n", namespace, "--kubeconfig", kubeconfig); code != cmdutil.ExitFailed || !strings.Contains(out, "ResourceSlice cannot be read") {
		t.Errorf("without the right to slices: %d\n%s", code, out)
	}
	must(c.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{read("resource.k8s.io", "resourceslices", "deviceclasses")}}, metav1.CreateOptions{}))(t)
	must(c.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenant"}}, metav1.CreateOptions{}))(t)
	out, code := run(t, "why", "claim/taken", "-n", namespace, "--kubeconfig", kubeconfig)
	if code == cmdutil.ExitFailed || strings.Contains(out, "team-b") {
		t.Errorf("%d: what the asker may not see is said:\n%s", code, out)
	}
	for _, note := range []string{"claims of other namespaces cannot be read", "nodes cannot be read", "DeviceTaintRule cannot be read"} {
		if !strings.Contains(out, note) && (cluster.Minor() == "1.37" || !strings.HasPrefix(note, "DeviceTaintRule")) {
			t.Errorf("does not say %q:\n%s", note, out)
		}
	}
}

// testDevices writes the devices in each form.
func testDevices(t *testing.T, kubeconfig string) {
	devices := func(output string) string {
		out, code := run(t, "devices", "--kubeconfig", kubeconfig, "-o", output)
		if code != cmdutil.ExitClean {
			t.Fatalf("%s: exit code %d: %s", output, code, out)
		}
		return out
	}
	if got := devices("name"); got != "gpu.example.com/half/half\ngpu.example.com/half/spare\ngpu.example.com/other/far\ngpu.example.com/whole/free\ngpu.example.com/whole/single\ngpu.example.com/whole/tainted\ngpu.example.com/whole/two\n" {
		t.Errorf("names:\n%s", got)
	}
	for output, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) }} {
		var all []struct {
			Device, Node, Slice string
			Taints              []struct{ Key, Effect string }
			AllocatedTo         []struct {
				Namespace, Claim string
				UsedBy           []string
			}
		}
		if err := decode([]byte(devices(output)), &all); err != nil {
			t.Fatal(err)
		}
		if len(all) != 7 || fmt.Sprint(all[4]) != "{single node-0 whole [] [{team-b holder [pods/holder]}]}" || fmt.Sprint(all[5].Taints) != "[{gpu.example.com/hot NoSchedule}]" {
			t.Errorf("%s: %+v", output, all)
		}
	}
	wide := devices("wide")
	for _, want := range []string{"ALLOCATED TO", "team-b/holder", "pods/holder", "taint gpu.example.com/hot:NoSchedule", "driver/gpu.example.com", "node-1"} {
		if !strings.Contains(wide, want) {
			t.Errorf("wide does not say %q:\n%s", want, wide)
		}
	}
	if text := devices("text"); strings.Contains(text, "pods/holder") || !strings.Contains(text, "team-b/holder") {
		t.Errorf("text:\n%s", text)
	}
}
