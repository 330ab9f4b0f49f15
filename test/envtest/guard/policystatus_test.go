package guard_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

const statusName = "dra-steward-policies"

// startController runs the controller as the chart does, with the rights of its account,
// until the test ends.
func startController(t *testing.T) {
	t.Helper()
	objects, err := chart.Render(map[string]any{"certificates": map[string]any{"mode": "provided", "existingSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----\n…"}}, chart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.UserKubeconfig("system:serviceaccount:dra-steward:dra-steward-controller", "system:serviceaccounts", "system:serviceaccounts:dra-steward")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig=" + kubeconfig}
	for _, object := range objects {
		if object.GetKind() != "Deployment" || object.GetLabels()["app.kubernetes.io/component"] != "controller" {
			continue
		}
		containers, _ := object.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
		for _, arg := range containers[0].(map[string]any)["args"].([]any) {
			text := arg.(string)
			if flag, _, is := strings.Cut(text, "-address="); is {
				text = flag + "-address=127.0.0.1:0"
			}
			args = append(args, text)
		}
	}
	args = append(args[1:], args[0])
	ctx, stop := context.WithCancel(context.Background())
	log, code := &proc.Log{}, make(chan int, 1)
	go func() { code <- cli.Run(ctx, args, cmdutil.Streams{Out: log, Err: log}) }()
	t.Cleanup(func() {
		stop()
		if got := <-code; got != cmdutil.ExitClean || t.Failed() {
			t.Errorf("the controller ended with exit code %d:\n%s", got, log)
		}
	})
}

// podOf is the pod of a replica, as far as the controller looks at it.
func podOf(t *testing.T, admin kubernetes.Interface, name string, g *guard.Guard) {
	t.Helper()
	_, text, err := net.SplitHostPort(g.MetricsAddress())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	pods, mount := admin.CoreV1().Pods(release), false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "dra-steward", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "webhook"}},
		Spec: corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: &mount, Containers: []corev1.Container{{Name: "webhook", Image: "none",
			Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(port)}}}}},
	}
	eventually(t, "the pod "+name, func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{}) // the default account takes a moment
		return err == nil, nil
	})
	t.Cleanup(func() {
		now := int64(0)
		_ = pods.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	status := []byte(`{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}]}}`)
	if _, err := pods.Patch(t.Context(), name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// statusOf waits until the status of the policies is as it should be.
func statusOf(t *testing.T, admin kubernetes.Interface, what string, is func(policyoutcome.Status, string) bool) policyoutcome.Status {
	t.Helper()
	var status policyoutcome.Status
	var text string
	defer func() { t.Log(text) }()
	eventually(t, what, func(ctx context.Context) (bool, error) {
		configMap, err := admin.CoreV1().ConfigMaps(release).Get(ctx, statusName, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		text = fmt.Sprint(configMap.Data["summary"], configMap.Data["replicas.yaml"])
		status, err = policyoutcome.Decode(configMap.Data)
		return is(status, configMap.Data["summary"]), err
	})
	return status
}

// forget deletes what the controller has written.
func forget(t *testing.T, admin kubernetes.Interface) {
	last := context.WithoutCancel(t.Context())
	_ = admin.CoreV1().ConfigMaps(release).Delete(last, statusName, metav1.DeleteOptions{})
	_ = admin.CoreV1().ConfigMaps(release).Delete(last, "site", metav1.DeleteOptions{})
	_ = admin.CoreV1().Events(release).DeleteCollection(last, metav1.DeleteOptions{}, metav1.ListOptions{})
	_ = admin.CoordinationV1().Leases(release).Delete(last, "dra-steward-controller", metav1.DeleteOptions{})
}

// TestPolicyStatus: of a broken edit that got in, the status says which replica refuses
// it, where and why, and an event does; the edit itself stays as its author wrote it.
// When it is mended, the status is clean.
func TestPolicyStatus(t *testing.T) {
	g, admin, _ := guarded(t, nil)
	t.Cleanup(func() { forget(t, admin) })
	other, err := g.Another(t.Context(), &proc.Log{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	})
	startController(t)
	podOf(t, admin, "webhook-a", g)
	podOf(t, admin, "webhook-b", other)
	maps := admin.CoreV1().ConfigMaps(release)
	stored, err := maps.Create(t.Context(), policyMap(map[string]string{"a.rego": sitePolicy(1, "one")}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := statusOf(t, admin, "both replicas agree", func(s policyoutcome.Status, summary string) bool {
		return strings.Contains(summary, "in force on 2 of 2 replicas") && s.InForce["SITE-001"].Digest != ""
	})

	withoutHook(t, admin)
	stored.Data["a.rego"] = strings.Replace(sitePolicy(1, "two"), "toleration.key", "toleration.kee", 1)
	if stored, err = maps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	bad := statusOf(t, admin, "both replicas refuse", func(s policyoutcome.Status, summary string) bool {
		return strings.Contains(summary, "2 refuse the present ConfigMaps: ConfigMap site: a.rego:15:")
	})
	for _, replica := range bad.Replicas {
		problem := replica.Load.Problems[0]
		if problem.ConfigMap != "site" || problem.File != "a.rego" || problem.Line != 15 || problem.Column != 2 || !strings.Contains(problem.Message, "kee") ||
			replica.Load.Revision != good.Replicas[0].Load.Revision {
			t.Errorf("%s: %+v", replica.Name, replica.Load)
		}
	}
	told := func(reason string) (text string) {
		eventually(t, reason, func(ctx context.Context) (bool, error) {
			events, err := admin.CoreV1().Events(release).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=site,involvedObject.uid=" + string(stored.UID) + ",reason=" + reason})
			if err != nil || len(events.Items) == 0 {
				return false, err
			}
			text = events.Items[0].Message
			return true, nil
		})
		t.Log(text)
		return text
	}
	if text := told("PoliciesRefused"); !strings.Contains(text, "a.rego:15:2") || !strings.Contains(text, "webhook-a, webhook-b") {
		t.Error(text)
	}
	if now, err := maps.Get(t.Context(), "site", metav1.GetOptions{}); err != nil || now.ResourceVersion != stored.ResourceVersion {
		t.Errorf("the author's ConfigMap was written: %v, %v", now, err)
	}

	stored.Data["a.rego"] = sitePolicy(1, "two")
	if _, err = maps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	mended := statusOf(t, admin, "the status is clean", func(s policyoutcome.Status, summary string) bool {
		return strings.Contains(summary, "in force on 2 of 2 replicas") && !strings.Contains(summary, "refuse") && s.InForce["SITE-001"].Digest != good.InForce["SITE-001"].Digest
	})
	if before, after := good.InForce["DRA-TOL-001"], mended.InForce["DRA-TOL-001"]; !before.Since.Equal(after.Since) || before.Digest != after.Digest {
		t.Errorf("a policy that did not change is in force since %v, before that since %v", after, before)
	}
	told("PoliciesAccepted")
}

// usingTemplate is a pod with a claim from a template.
func usingTemplate(name, template string) *corev1.Pod {
	mount := false
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: &mount,
		ResourceClaims:               []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
		Containers:                   []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}}}}
}

// TestAgeOfTemplates: what the claim controller makes from a template that is older than
// a policy goes on to work; what it makes from one that slipped in later is refused, and
// the pod says why.
func TestAgeOfTemplates(t *testing.T) {
	g, admin, _ := guarded(t, nil)
	t.Cleanup(func() { forget(t, admin) })
	startController(t)
	podOf(t, admin, "webhook-a", g)
	templates, pods := admin.ResourceV1().ResourceClaimTemplates(namespace), admin.CoreV1().Pods(namespace)
	template := func(name string) *resourceapi.ResourceClaimTemplate {
		spec := claim(name, resourceapi.DeviceToleration{Key: "example.com/forbidden", Operator: "Exists", Effect: "NoSchedule"}).Spec
		spec.Devices.Requests[0].Name = name // their claims say different things
		return &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}
	}
	t.Cleanup(func() {
		last, now := context.WithoutCancel(t.Context()), int64(0)
		for _, name := range []string{"older", "younger"} {
			_ = pods.Delete(last, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			_ = templates.Delete(last, name, metav1.DeleteOptions{})
		}
	})
	if _, err := templates.Create(t.Context(), template("older"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps(release).Create(t.Context(), policyMap(map[string]string{
		"a.rego": strings.Replace(sitePolicy(1, "one"), "[ResourceClaim]", "[ResourceClaim, ResourceClaimTemplate]", 1)}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	since := statusOf(t, admin, "the policy is in force", func(s policyoutcome.Status, _ string) bool { return s.InForce["SITE-001"].Digest != "" }).InForce["SITE-001"].Since
	_, err := templates.Create(t.Context(), template("younger"), metav1.CreateOptions{})
	wantDenied(t, err, "SITE-001")

	if _, err := pods.Create(t.Context(), usingTemplate("older", "older"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a claim from the older template", func(ctx context.Context) (bool, error) {
		claims, err := admin.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		for _, c := range claims.Items {
			if c.Annotations["resource.kubernetes.io/pod-claim-name"] == "gpu" && c.Spec.Devices.Requests[0].Name == "older" {
				return true, nil
			}
		}
		return false, err
	})

	slipIn(t, admin, "templates.validate.dra-steward.io", func(ctx context.Context) error {
		made, err := templates.Create(ctx, template("younger"), metav1.CreateOptions{})
		if err == nil && !made.CreationTimestamp.After(since) {
			return fmt.Errorf("%v, want after %v: %w", made.CreationTimestamp, since, templates.Delete(ctx, "younger", metav1.DeleteOptions{}))
		}
		return err
	})
	if _, err := pods.Create(t.Context(), usingTemplate("younger", "younger"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod says why it has no claim", func(ctx context.Context) (bool, error) {
		events, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=younger"})
		for _, event := range events.Items {
			if strings.Contains(event.Message, "SITE-001") {
				t.Log(event.Message)
				return true, nil
			}
		}
		return false, err
	})
	claims, err := admin.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if c.Spec.Devices.Requests[0].Name == "younger" {
			t.Errorf("claim %s from the younger template", c.Name)
		}
	}
}

// slipIn does something as if the webhook had not answered at one of its endpoints.
func slipIn(t *testing.T, admin kubernetes.Interface, hook string, do func(context.Context) error) {
	t.Helper()
	removeHook(t, admin, hook)
	eventually(t, "it slips in", func(ctx context.Context) (bool, error) { return do(ctx) == nil, nil })
}
