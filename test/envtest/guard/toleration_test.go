package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// rewriting are the values of a site that changes the tolerations of new claims.
func rewriting(maxSeconds int) map[string]any {
	return map[string]any{"defaults": map[string]any{"tolerations": map[string]any{
		"expandEmptyEffect": true,
		"rules": []any{
			map[string]any{"deviceClasses": []any{driver}, "add": []any{map[string]any{
				"key": "example.com/reboot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}}},
			map[string]any{"maxSeconds": maxSeconds},
		},
	}}}
}

const reappliedSpec = `devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
          tolerations:
          - {key: example.com/degraded, operator: Exists}
          - {key: example.com/drained, value: x, effect: NoExecute}`

var reapplied = map[string]string{
	"resourceclaim":         "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: NAME}\nspec:\n    " + reappliedSpec,
	"resourceclaimtemplate": "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: NAME}\nspec:\n  spec:\n    " + strings.ReplaceAll(reappliedSpec, "\n", "\n  "),
}

var waysToWrite = map[string][]string{
	"client-side apply": {"apply", "-f", "-"},
	"server-side apply": {"apply", "--server-side", "-f", "-"},
	"put":               {"replace", "-f", "-"},
}

// TestSameManifestAgain: our tolerations stand in immutable specs, and still a user who
// writes the manifest again, in each of three ways, is let in and changes nothing;
// also after the settings have changed, and after they are gone.
func TestSameManifestAgain(t *testing.T) {
	stored := map[string]object{}
	everyWay := func(write func(name, kind, way string)) {
		for kind := range reapplied {
			for way := range waysToWrite {
				write("again-"+strings.ReplaceAll(way, " ", "-"), kind, way)
			}
		}
	}
	defer everyWay(func(name, kind, _ string) {
		_ = cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", kind, name, "--ignore-not-found").Run()
	})
	for _, site := range []struct {
		name   string
		values map[string]any
	}{{"first settings", rewriting(3600)}, {"lower ceiling", rewriting(60)}, {"no settings", nil}} {
		t.Run(site.name, func(t *testing.T) {
			guarded(t, site.values)
			everyWay(func(name, kind, way string) {
				manifest := strings.Replace(reapplied[kind], "NAME", name, 1)
				if _, known := stored[kind+name]; !known && way == "put" {
					// The first PUT takes over the fields that belong to the creator.
					kubectl(t, manifest, "create", "-f", "-")
				}
				kubectl(t, manifest, waysToWrite[way]...)
				is := get(t, kind, name)
				if was, known := stored[kind+name]; !known {
					stored[kind+name] = is
					checkRewritten(t, is)
				} else if diff := cmp.Diff(was, is); diff != "" {
					t.Errorf("%s of the same %s: -before +after\n%s", way, kind, diff)
				}
			})
		})
	}
	t.Run("another manifest", func(t *testing.T) {
		guarded(t, rewriting(3600))
		everyWay(func(name, kind, way string) {
			changed := strings.Replace(reapplied[kind], "example.com/degraded", "example.com/other", 1)
			cmd := cluster.Kubectl(t.Context(), waysToWrite[way]...)
			cmd.Stdin = strings.NewReader(strings.Replace(changed, "NAME", name, 1))
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "immutable") {
				t.Errorf("%s of another %s: %v, want the API server to refuse it\n%s", way, kind, err, out)
			}
		})
	})
}

// An object is what must not change when nothing does.
type object struct {
	ResourceVersion string
	Generation      int64
	Tolerations     []resourceapi.DeviceToleration
}

func get(t *testing.T, kind, name string) object {
	t.Helper()
	out := kubectl(t, "", "get", kind, name, "-o", "json")
	var claim resourceapi.ResourceClaim
	var template resourceapi.ResourceClaimTemplate
	if err := json.Unmarshal(out, &claim); err != nil {
		t.Fatal(err)
	}
	requests := claim.Spec.Devices.Requests
	if kind == "resourceclaimtemplate" {
		if err := json.Unmarshal(out, &template); err != nil {
			t.Fatal(err)
		}
		requests = template.Spec.Spec.Devices.Requests
	}
	return object{claim.ResourceVersion, claim.Generation, requests[0].Exactly.Tolerations}
}

func checkRewritten(t *testing.T, o object) {
	t.Helper()
	var lines []string
	for _, toleration := range o.Tolerations {
		seconds := "always"
		if toleration.TolerationSeconds != nil {
			seconds = fmt.Sprint(*toleration.TolerationSeconds)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", toleration.Key, toleration.Effect, seconds))
	}
	want := []string{
		"example.com/degraded NoSchedule always", "example.com/drained NoExecute 3600",
		"example.com/degraded NoExecute 3600", "example.com/reboot NoExecute 600",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +stored\n%s", diff)
	}
}

func kubectl(t *testing.T, stdin string, args ...string) []byte {
	t.Helper()
	cmd := cluster.Kubectl(t.Context(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.Bytes()
}

// TestExtendedResourceStillSchedules: the scheduler writes a claim of its own for an
// extended resource, which a site that changes tolerations must not break.
func TestExtendedResourceStillSchedules(t *testing.T) {
	if version.MustParse(cluster.Version()).LessThan(version.MustParse("1.36.0")) {
		t.Skip("extended resources from device classes are off by default before Kubernetes 1.36")
	}
	_, c, _ := guarded(t, rewriting(60))
	offerDevice(t, c)
	const resourceName = "example.com/gpu"
	classes := c.ResourceV1().DeviceClasses()
	class, err := classes.Get(t.Context(), driver, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class.Spec.ExtendedResourceName = new(resourceName)
	if _, err := classes.Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := c.CoreV1().Pods(namespace)
	one := corev1.ResourceList{resourceName: resource.MustParse("1")}
	if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "extended"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "train", Image: "registry.example.com/train:1", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer pods.Delete(context.WithoutCancel(t.Context()), "extended", metav1.DeleteOptions{})
	eventually(t, "the pod with an extended resource runs", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "extended", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.ExtendedResourceClaimStatus != nil, err
	})
}

// TestMaxSecondsWithoutMutatingWebhook: a user who gets past the mutating webhook, which is
// always Ignore, does not get past maxSeconds.
func TestMaxSecondsWithoutMutatingWebhook(t *testing.T) {
	_, c, _ := guarded(t, rewriting(3600))
	configurations := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	all, err := configurations.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward"})
	if err != nil || len(all.Items) == 0 {
		t.Fatalf("%d mutating webhook configurations: %v", len(all.Items), err)
	}
	for i := range all.Items {
		if err := configurations.Delete(t.Context(), all.Items[i].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	claims := c.ResourceV1().ResourceClaims(namespace)
	toleration := resourceapi.DeviceToleration{Key: "example.com/drained", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}
	eventually(t, "a toleration without an end is refused", func(ctx context.Context) (bool, error) {
		_, err := claims.Create(ctx, claim("unlowered", toleration), metav1.CreateOptions{})
		if err == nil { // the API server still calls the mutating webhook
			deleteClaim(t, c, "unlowered")
			return false, nil
		}
		if !strings.Contains(err.Error(), "at most 3600 seconds") {
			return false, err
		}
		return true, nil
	})
	toleration.TolerationSeconds = new(int64(3600))
	if _, err := claims.Create(t.Context(), claim("within", toleration), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	deleteClaim(t, c, "within")
}
