package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
)

const implicit = "deviceclass.resource.kubernetes.io/gpu.example.com"

// pod writes a pod; each argument is the limits of one holder: "init:", "sidecar:" or "pod:"
// before it is what it says, nothing is a container.
func pod(limits ...string) string {
	var containers, init, own []string
	for i, l := range limits {
		kind, rest, _ := strings.Cut(l, ": ")
		if !slices.Contains([]string{"init", "sidecar", "pod"}, kind) {
			kind, rest = "", l
		}
		text := fmt.Sprintf("resources: {limits: {%s}}", rest)
		container := fmt.Sprintf("{name: c%d, %s", i, text)
		switch kind {
		case "pod":
			own = append(own, text)
		case "init":
			init = append(init, container+"}")
		case "sidecar":
			init = append(init, container+", restartPolicy: Always}")
		default:
			containers = append(containers, container+"}")
		}
	}
	spec := append([]string{"containers: [" + strings.Join(append(containers, "{name: plain}"), ", ") + "]"}, own...)
	if init != nil {
		spec = append(spec, "initContainers: ["+strings.Join(init, ", ")+"]")
	}
	return object("", "spec: {"+strings.Join(spec, ", ")+"}")
}

// TestExtendedResourcesSent: pods with an implicit name are sent to the webhook of the chart,
// those with a declared name to that of the controller, and no other pods.
func TestExtendedResourcesSent(t *testing.T) {
	off := render(t, with(values{"extendedResources": values{"enabled": false}}), Options{})
	if find(off.hooks(), extendedresources.ImplicitWebhook) != nil || !slices.Contains(off.deployment.Spec.Template.Spec.Containers[0].Args, "--extended-resources=false") {
		t.Error("pods are sent, or checked, although extendedResources.enabled is false")
	}
	r := render(t, with(nil), Options{})
	implicitHook := find(r.hooks(), extendedresources.ImplicitWebhook)
	if implicitHook == nil || *implicitHook.FailurePolicy != admissionv1.Ignore || *implicitHook.TimeoutSeconds != 2 {
		t.Fatalf("got %+v", implicitHook)
	}
	change, err := extendedresources.Decide(r.validating.Webhooks, []string{"nvidia.com/gpu"})
	if err != nil {
		t.Fatal(err)
	}
	listed := hook{ValidatingWebhook: *change.Webhook}
	if a, b := strings.Fields(implicitHook.MatchConditions[0].Expression), strings.Fields(extendedresources.Condition("name.startsWith('deviceclass.resource.kubernetes.io/')")); strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("the chart and the controller have different expressions:\n%s\n%s", a, b)
	}
	for name, tt := range map[string]struct{ pod, to string }{
		"implicit":                     {pod(implicit + `: "1"`), "implicit"},
		"implicit, init container":     {pod("init: " + implicit + `: "1"`), "implicit"},
		"implicit, sidecar":            {pod("sidecar: " + implicit + `: "1"`), "implicit"},
		"implicit, of the pod":         {pod("pod: " + implicit + `: "1"`), "implicit"},
		"declared":                     {pod("cpu: 1", `nvidia.com/gpu: "1"`), "listed"},
		"declared, init container":     {pod(`init: nvidia.com/gpu: "1"`), "listed"},
		"both":                         {pod(`nvidia.com/gpu: "1", ` + implicit + `: "1"`), "implicit,listed"},
		"a device plugin's":            {pod(`amd.com/gpu: "1"`), ""},
		"none":                         {pod("cpu: 1"), ""},
		"no resources at all":          {object("", "spec: {containers: [{name: a}]}"), ""},
		"a claim, no extended":         {object("", "spec: {containers: [{name: a, resources: {claims: [{name: gpu}]}}], resourceClaims: [{name: gpu}]}"), ""},
		"only in requests":             {object("", "spec: {containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1}}}]}"), "listed"},
		"the prefix in another place":  {pod(`example.com/deviceclass.resource.kubernetes.io: "1"`), ""},
		"the name in an annotation":    {object("annotations: {nvidia.com/gpu: a}", "spec: {containers: [{name: a}]}"), ""},
		"the beginning of a name only": {pod(`nvidia.com/gpu-shared: "1"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if sends(t, *implicitHook, "", tt.pod) {
				got = append(got, "implicit")
			}
			if sends(t, listed, "", tt.pod) {
				got = append(got, "listed")
			}
			if strings.Join(got, ",") != tt.to {
				t.Errorf("sent to %q, want %q", got, tt.to)
			}
		})
	}
}

// TestExtendedResourceLimits evaluates the policy that limits the devices of a pod. It has no parameters: helm uninstall deletes
// them before the policy, and the API server would refuse pods in between.
func TestExtendedResourceLimits(t *testing.T) {
	r := render(t, with(values{"extendedResources": values{"limits": values{"nvidia.com/gpu": 2, implicit: 1}, "implicitLimit": 0}}), Options{})
	policy, binding := r.policies["dra-steward-extended-resources"], r.bindings["dra-steward-extended-resources"]
	if policy == nil || binding == nil || *policy.Spec.FailurePolicy != admissionv1.Fail || policy.Spec.ParamKind != nil || binding.Spec.ParamRef != nil {
		t.Fatalf("got %+v, %+v", policy, binding)
	}
	without := render(t, with(values{"extendedResources": values{"limits": values{"nvidia.com/gpu": 2}}}), Options{}).policies[policy.Name]
	other := "deviceclass.resource.kubernetes.io/other"
	for name, tt := range map[string]struct {
		pod    string
		want   string // a name in the denial
		policy *admissionv1.ValidatingAdmissionPolicy
	}{
		"no devices":                         {pod: pod("cpu: 1")},
		"at the limit":                       {pod: pod(`nvidia.com/gpu: "2"`)},
		"over the limit":                     {pod: pod(`nvidia.com/gpu: "3"`), want: "nvidia.com/gpu"},
		"over the limit in two containers":   {pod: pod(`nvidia.com/gpu: "1"`, `nvidia.com/gpu: "2"`), want: "nvidia.com/gpu"},
		"with a sidecar":                     {pod: pod(`nvidia.com/gpu: "1"`, `sidecar: nvidia.com/gpu: "2"`), want: "nvidia.com/gpu"},
		"an init container that ends before": {pod: pod(`nvidia.com/gpu: "2"`, `init: nvidia.com/gpu: "2"`)},
		"an init container that ends while a sidecar runs": {pod: pod(`sidecar: nvidia.com/gpu: "1"`, `init: nvidia.com/gpu: "2"`), want: "nvidia.com/gpu"},
		"an init container and a sidecar at the limit":     {pod: pod(`sidecar: nvidia.com/gpu: "1"`, `init: nvidia.com/gpu: "1"`)},
		"an init container alone":                          {pod: pod(`init: nvidia.com/gpu: "3"`), want: "nvidia.com/gpu"},
		"of the pod":                                       {pod: pod(`pod: nvidia.com/gpu: "3"`), want: "nvidia.com/gpu"},
		"a quantity with a suffix":                         {pod: pod(`nvidia.com/gpu: "3k"`), want: "nvidia.com/gpu"},
		"a listed class":                                   {pod: pod(implicit + `: "1"`)},
		"too many of a listed class":                       {pod: pod(implicit + `: "2"`), want: implicit},
		"a class that is not listed":                       {pod: pod(other + `: "1"`), want: other},
		"another, without implicitLimit":                   {pod: pod(other + `: "1"`), policy: without},
		"a listed name, without implicitLimit":             {pod: pod(`nvidia.com/gpu: "3"`), want: "nvidia.com/gpu", policy: without},
		"a device plugin's":                                {pod: pod(`amd.com/gpu: "8"`)},
		"two names, one over":                              {pod: pod(`nvidia.com/gpu: "1", ` + implicit + `: "2"`), want: implicit},
	} {
		t.Run(name, func(t *testing.T) {
			got := denials(t, cmp.Or(tt.policy, policy), write{kind: "Pod", resource: "pods", new: tt.pod})
			if len(got) != min(len(tt.want), 1) || len(got) > 0 && !strings.Contains(got[0], "through "+tt.want+"; ask for fewer") {
				t.Errorf("got %q, want a denial because of %q", got, tt.want)
			}
		})
	}
	if r := render(t, with(nil), Options{}); r.policies[policy.Name] != nil {
		t.Error("there is a policy without limits")
	}
}

// TestMostExtendedResourceLimits: the API server compiles an expression with as many limits as the values may have.
func TestMostExtendedResourceLimits(t *testing.T) {
	limits := values{}
	for i := range 256 {
		limits[fmt.Sprintf("%0253d/%063d", i, i)] = int64(1_000_000_000_000_000)
	}
	limits["nvidia.com/gpu"] = 2
	if _, err := Render(with(values{"extendedResources": values{"limits": limits}}), Options{}); err == nil || !strings.Contains(err.Error(), "maxProperties") {
		t.Errorf("257 limits: got %v", err)
	}
	delete(limits, fmt.Sprintf("%0253d/%063d", 0, 0))
	policy := render(t, with(values{"extendedResources": values{"limits": limits, "implicitLimit": 0}}), Options{}).policies["dra-steward-extended-resources"]
	if got := denials(t, policy, write{kind: "Pod", resource: "pods", new: pod(`nvidia.com/gpu: "3"`)}); len(got) != 1 {
		t.Errorf("got %q, want a denial", got)
	}
}

func find(hooks []hook, name string) *hook {
	for _, h := range hooks {
		if h.Name == name {
			return &h
		}
	}
	return nil
}

// TestExtendedResourcesRight: the controller may patch one configuration by name, and only
// where it keeps the webhook or the certificate.
func TestExtendedResourcesRight(t *testing.T) {
	for enabled, want := range map[bool]string{true: "[list watch patch] [dra-steward]", false: ""} {
		r := render(t, with(values{"extendedResources": values{"enabled": enabled}}), Options{}).controller
		var got []string
		for _, rule := range r.clusterRole.Rules {
			if slices.Contains(rule.Resources, "validatingwebhookconfigurations") {
				got = append(got, fmt.Sprint(rule.Verbs, " ", rule.ResourceNames))
			}
		}
		if strings.Join(got, ", ") != want || slices.Contains(r.deployment.Spec.Template.Spec.Containers[0].Args, "--extended-resources=true") != enabled {
			t.Errorf("enabled %v: got the rights %q, want %q", enabled, got, want)
		}
	}
}
