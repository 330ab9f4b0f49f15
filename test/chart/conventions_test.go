package chart

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// components are the keys of values of all workloads; "" is the webhook.
var components = []string{"", "controller", "node", "scheduler"}

// everywhere sets the same values for each component, and switches all components on.
func everywhere(more values) values {
	v := values{}
	for _, component := range components {
		if component == "" {
			for key, value := range more {
				v[key] = value
			}
			continue
		}
		own := values{"enabled": true}
		for key, value := range more {
			own[key] = value
		}
		v[component] = own
	}
	return v
}

// workloads returns the pod template of each component, and all objects.
func workloads(t *testing.T, v values) (map[string]corev1.PodTemplateSpec, []*unstructured.Unstructured) {
	t.Helper()
	objects, err := Render(with(v), Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.PodTemplateSpec{}
	for _, object := range objects {
		var deployment appsv1.Deployment // a DaemonSet has its template in the same place
		if kind := object.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			t.Fatal(err)
		}
		found[strings.Replace(object.GetLabels()["app.kubernetes.io/component"], "webhook", "", 1)] = deployment.Spec.Template
	}
	if len(found) != len(components) {
		t.Fatalf("%d workloads, want %d", len(found), len(components))
	}
	return found, objects
}

// TestPodsOfHooks: labels and annotations of all pods reach those of hooks.
func TestPodsOfHooks(t *testing.T) {
	objects, err := Hooks(with(values{"podLabels": values{"example.com/a": "b"}, "podAnnotations": values{"example.com/c": "d"}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, object := range objects {
		if object.GetKind() != "Job" {
			continue
		}
		jobs++
		labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
		annotations, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
		if labels["example.com/a"] != "b" || annotations["example.com/c"] != "d" || labels["app.kubernetes.io/component"] == "" {
			t.Errorf("Job %s: labels %v, annotations %v", object.GetName(), labels, annotations)
		}
	}
	if jobs == 0 {
		t.Error("no Job")
	}
}

// TestNamesOfAnyForm: names that look like numbers stay strings, and the longest names are short enough for their kinds.
func TestNamesOfAnyForm(t *testing.T) {
	v := everywhere(values{})
	v["fullnameOverride"] = strings.Repeat("a", 50)
	v["monitoring"] = values{"serviceMonitor": values{"enabled": true}, "podMonitor": values{"enabled": true}, "alerts": values{"enabled": true}, "dashboard": values{"enabled": true}}
	objects, err := Render(with(v), Options{ReleaseName: "123", Namespace: "456"})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		what := object.GetKind() + " " + object.GetName()
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", "labels"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, _, err := unstructured.NestedString(object.Object, "metadata", "namespace"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels"); err != nil && object.GetKind() != "NetworkPolicy" {
			t.Errorf("%s: %v", what, err)
		}
		most := 253
		switch object.GetKind() {
		case "Service", "Job", "Namespace":
			most = 63
		}
		if n := len(object.GetName()); n > most {
			t.Errorf("%s: %d characters, at most %d", what, n, most)
		}
	}
}

// TestSameValuesForEachComponent: what is set for a component reaches its pods.
func TestSameValuesForEachComponent(t *testing.T) {
	found, _ := workloads(t, everywhere(values{
		"podLabels": values{"example.com/a": "b"}, "podAnnotations": values{"example.com/c": "d"},
		"nodeSelector": values{"example.com/e": "f"}, "tolerations": []any{values{"key": "g", "operator": "Exists"}},
		"affinity":                  values{"nodeAffinity": values{}},
		"topologySpreadConstraints": []any{values{"maxSkew": 3, "topologyKey": "h", "whenUnsatisfiable": "DoNotSchedule"}},
		"priorityClassName":         "important", "extraArgs": []any{"--extra=i"},
		"extraEnv":          []any{values{"name": "EXTRA", "value": "j"}},
		"extraVolumes":      []any{values{"name": "extra", "emptyDir": values{}}},
		"extraVolumeMounts": []any{values{"name": "extra", "mountPath": "/extra"}},
		"resources":         values{"limits": values{"memory": "123Mi"}},
	}))
	for component, template := range found {
		spec, container := template.Spec, template.Spec.Containers[0]
		for what, ok := range map[string]bool{
			"podLabels": template.Labels["example.com/a"] == "b", "podAnnotations": template.Annotations["example.com/c"] == "d",
			"nodeSelector": spec.NodeSelector["example.com/e"] == "f", "tolerations": len(spec.Tolerations) == 1 && spec.Tolerations[0].Key == "g",
			"affinity":                  spec.Affinity != nil && spec.Affinity.NodeAffinity != nil && spec.Affinity.PodAntiAffinity == nil,
			"topologySpreadConstraints": len(spec.TopologySpreadConstraints) == 1 && spec.TopologySpreadConstraints[0].MaxSkew == 3,
			"priorityClassName":         spec.PriorityClassName == "important",
			"extraArgs":                 slices.Contains(container.Args, "--extra=i"),
			"extraEnv":                  slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "EXTRA" && e.Value == "j" }),
			"extraVolumes":              slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "extra" && v.EmptyDir != nil }),
			"extraVolumeMounts":         slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "extra" && m.MountPath == "/extra" }),
			"resources":                 container.Resources.Limits.Memory().String() == "123Mi",
		} {
			if !ok {
				t.Errorf("component %q: %s is not in the pods", component, what)
			}
		}
	}
}

// TestMemoryLimit: GOMEMLIMIT follows the memory limit of each container.
func TestMemoryLimit(t *testing.T) {
	found, _ := workloads(t, everywhere(nil))
	for component, template := range found {
		env := map[string]corev1.EnvVar{}
		for _, e := range template.Spec.Containers[0].Env {
			env[e.Name] = e
		}
		source := env["MEMORY_LIMIT_MIB"].ValueFrom
		if source == nil || source.ResourceFieldRef.Resource != "limits.memory" || source.ResourceFieldRef.Divisor.String() != "1Mi" || env["GOMEMLIMIT"].Value != "$(MEMORY_LIMIT_MIB)000000B" {
			t.Errorf("component %q: %+v", component, env)
		}
	}
}

// TestInherited: where the controller has no value of its own, that of the webhook counts.
func TestInherited(t *testing.T) {
	found, _ := workloads(t, values{"nodeSelector": values{"a": "b"}, "tolerations": []any{values{"operator": "Exists"}}, "priorityClassName": "high",
		"controller": values{"tolerations": []any{}}, "node": values{"enabled": true, "tolerations": []any{}}, "scheduler": values{"enabled": true}})
	controller, scheduler := found["controller"].Spec, found["scheduler"].Spec
	if controller.NodeSelector["a"] != "b" || len(controller.Tolerations) != 0 || controller.PriorityClassName != "high" {
		t.Errorf("controller: %v, %v, %s", controller.NodeSelector, controller.Tolerations, controller.PriorityClassName)
	}
	if scheduler.NodeSelector["a"] != "b" || len(scheduler.Tolerations) != 1 || len(found["node"].Spec.NodeSelector) != 0 {
		t.Errorf("scheduler: %v, %v; node: %v", scheduler.NodeSelector, scheduler.Tolerations, found["node"].Spec.NodeSelector)
	}
}

// TestImages: global.imageRegistry wins over image.registry, and a component's own registry
// over that of the others.
func TestImages(t *testing.T) {
	for want, v := range map[string]values{
		"registry-to-be-set.example.invalid/dra-steward/dra-steward:0.1.0 registry-to-be-set.example.invalid/dra-steward/dra-steward-scheduler:0.1.0": {},
		"a.example/dra-steward/dra-steward:0.1.0 a.example/dra-steward/dra-steward-scheduler:0.1.0":                                                   {"image": values{"registry": "a.example"}},
		"b.example/x:1 b.example/dra-steward/dra-steward-scheduler:0.1.0":                                                                             {"image": values{"registry": "a.example", "repository": "x", "tag": "1"}, "global": values{"imageRegistry": "b.example"}},
		"x:0.1.0 c.example/dra-steward/dra-steward-scheduler:0.1.0":                                                                                   {"image": values{"registry": "", "repository": "x"}, "scheduler": values{"image": values{"registry": "c.example"}}},
	} {
		all := everywhere(nil)
		for key, value := range v {
			if scheduler, ok := value.(values); ok && key == "scheduler" {
				scheduler["enabled"] = true
			}
			all[key] = value
		}
		found, _ := workloads(t, all)
		if got := fmt.Sprint(found[""].Spec.Containers[0].Image, " ", found["scheduler"].Spec.Containers[0].Image); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestNamesAndLabels: nameOverride changes names and the name label, commonLabels are on all
// objects and pods, and selectors select.
func TestNamesAndLabels(t *testing.T) {
	v := everywhere(nil)
	v["nameOverride"], v["commonLabels"] = "gpu", values{"example.com/team": "infra"}
	found, objects := workloads(t, v)
	for _, object := range objects {
		if object.GetLabels()["example.com/team"] != "infra" && object.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s %s has no common label", object.GetKind(), object.GetName())
		}
		if selector, ok, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels"); ok {
			if selector["app.kubernetes.io/name"] != "gpu" || selector["example.com/team"] != "" {
				t.Errorf("%s %s selects %v", object.GetKind(), object.GetName(), selector)
			}
		}
	}
	for component, template := range found {
		if template.Labels["example.com/team"] != "infra" || template.Labels["app.kubernetes.io/name"] != "gpu" {
			t.Errorf("pods of component %q have the labels %v", component, template.Labels)
		}
	}
}

// TestLabelsOnce: a key that several values and the chart set is rendered once, as kustomize and Flux ask. The value for
// fewer objects counts, and no value changes a label that selects.
func TestLabelsOnce(t *testing.T) {
	all := func(value string) values {
		return values{"team": value, "helm.sh/chart": value, "app.kubernetes.io/component": value, "pod-security.kubernetes.io/enforce": value, "rbac.authorization.k8s.io/aggregate-to-view": value}
	}
	more := func() values { return values{"enabled": true, "labels": all("monitor")} }
	v := everywhere(values{"podLabels": all("pod")})
	v["podLabels"], v["commonLabels"] = all("pods"), all("common")
	v["monitoring"] = values{"podMonitor": more(), "serviceMonitor": more(), "alerts": more(), "dashboard": more()}
	v["node"] = values{"enabled": true, "createNamespace": true, "namespace": "nodes", "podLabels": all("pod")}
	v["controller"] = values{"podLabels": all("pod"), "reactions": values{"enabled": true, "proofs": values{"enabled": true, "createNamespace": true}}}
	files, err := Manifests(with(v), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ file, label string }{
		{"configmap", "team: common"}, {"configmap", "helm.sh/chart: common"}, {"podmonitor", "team: monitor"}, {"deployment", "team: pods"}, {"controller-deployment", "team: pod"},
		{"deployment", "app.kubernetes.io/component: webhook"}, {"proof-namespace", "enforce: restricted"}, {"node-namespace", "enforce: privileged"},
	} {
		if !strings.Contains(files["templates/"+want.file+".yaml"], want.label) {
			t.Errorf("%s lacks %s", want.file, want.label)
		}
	}
	delete(files, "templates/NOTES.txt")
	for name, text := range files {
		decoder := yaml.NewDecoder(strings.NewReader(text))
		for err == nil {
			err = decoder.Decode(new(any))
		}
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		err = nil
	}
}

// TestServiceAccounts: a name, annotations, or none at all, for each component.
func TestServiceAccounts(t *testing.T) {
	for _, component := range components {
		own := values{"serviceAccount": values{"name": "mine", "annotations": values{"example.com/role": "r"}}}
		v := values{"node": values{"enabled": true}, "scheduler": values{"enabled": true}}
		none := values{"node": values{"enabled": true}, "scheduler": values{"enabled": true}}
		if component == "" {
			v["serviceAccount"], none["serviceAccount"] = own["serviceAccount"], values{"create": false, "name": "mine"}
		} else {
			own["enabled"] = true
			v[component], none[component] = own, values{"enabled": true, "serviceAccount": values{"create": false, "name": "mine"}}
		}
		found, objects := workloads(t, v)
		accounts, bound := 0, 0
		for _, object := range objects {
			if object.GetKind() == "ServiceAccount" && object.GetName() == "mine" && object.GetAnnotations()["example.com/role"] == "r" {
				accounts++
			}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				if fmt.Sprint(subject.(map[string]any)["name"]) == "mine" {
					bound++
				}
			}
		}
		if accounts != 1 || bound == 0 || found[component].Spec.ServiceAccountName != "mine" {
			t.Errorf("component %q: %d accounts, %d bindings, the pods use %q", component, accounts, bound, found[component].Spec.ServiceAccountName)
		}
		_, objects = workloads(t, none)
		for _, object := range objects {
			if object.GetKind() == "ServiceAccount" && object.GetName() == "mine" {
				t.Errorf("component %q: an account is created", component)
			}
		}
	}
}

// TestNetworkPolicies: off by default; the webhook's port is open to all but the networks of
// pods, the metrics to those that are selected.
func TestNetworkPolicies(t *testing.T) {
	if r := render(t, with(nil), Options{}); r.network != nil || r.controller.network != nil {
		t.Error("policies are rendered by default")
	}
	monitoring := values{"namespaceSelector": values{"matchLabels": values{"kubernetes.io/metadata.name": "monitoring"}}}
	r := render(t, with(values{"networkPolicy": values{"enabled": true, "podNetworks": []any{"10.244.0.0/16", "fd00::/8"}, "metricsFrom": []any{monitoring}}}), Options{})
	ingress := r.network.Spec.Ingress
	if len(ingress) != 2 || ingress[0].Ports[0].Port.StrVal != "https" || ingress[1].Ports[0].Port.StrVal != "metrics" || len(ingress[1].From) != 2 {
		t.Fatalf("got %+v", ingress)
	}
	blocks := []networkingv1.IPBlock{*ingress[0].From[0].IPBlock, *ingress[0].From[1].IPBlock}
	if blocks[0].CIDR != "0.0.0.0/0" || !slices.Equal(blocks[0].Except, []string{"10.244.0.0/16"}) || blocks[1].CIDR != "::/0" || !slices.Equal(blocks[1].Except, []string{"fd00::/8"}) {
		t.Errorf("got %+v", blocks)
	}
	if got := r.controller.network.Spec.Ingress; len(got) != 1 || got[0].Ports[0].Port.StrVal != "metrics" {
		t.Errorf("controller: %+v", got)
	}
	open := render(t, with(values{"networkPolicy": values{"enabled": true}}), Options{})
	if got := open.network.Spec.Ingress; len(got) != 2 || len(got[0].From) != 0 || !selects(got[1].From, r.controller.deployment.Spec.Template.Labels) || len(open.controller.network.Spec.Ingress) != 0 {
		t.Errorf("no networks, no scraper: %+v, %+v", got, open.controller.network.Spec.Ingress)
	}
}

// selects reports whether the only peer selects pods with these labels.
func selects(peers []networkingv1.NetworkPolicyPeer, podLabels map[string]string) bool {
	if len(peers) != 1 || peers[0].PodSelector == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(peers[0].PodSelector)
	return err == nil && selector.Matches(labels.Set(podLabels))
}

// TestSecureMetrics: where metrics are secure, each component that serves them may review
// tokens and rights, and Prometheus scrapes them by HTTPS with a token.
func TestSecureMetrics(t *testing.T) {
	v := values{"liveData": values{"enabled": false}, "guard": values{"enabled": false}, "policies": values{"configMaps": false},
		"node":       values{"enabled": true, "namespace": "agents", "createNamespace": true},
		"monitoring": values{"secure": true, "podMonitor": values{"enabled": true}, "serviceMonitor": values{"enabled": true}}}
	reviewers := map[string]int{}
	for _, r := range rights(t, with(v)) {
		if strings.Contains(r.what, "tokenreviews") || strings.Contains(r.what, "subjectaccessreviews") {
			reviewers[r.component]++
		}
	}
	if want := map[string]int{"webhook": 2, "controller": 2, "node": 2}; !maps.Equal(reviewers, want) {
		t.Errorf("rights to review: %v, want %v", reviewers, want)
	}
	objects, err := Render(with(v), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		list := map[string]string{"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}[object.GetKind()]
		if list == "" {
			continue
		}
		endpoints, _, _ := unstructured.NestedSlice(object.Object, "spec", list)
		endpoint, _ := endpoints[0].(map[string]any)
		if endpoint["scheme"] != "https" || endpoint["bearerTokenFile"] != nil {
			t.Errorf("%s: %v", object.GetKind(), endpoint)
		}
	}
	for _, r := range rights(t, nil) {
		if strings.Contains(r.what, "reviews") {
			t.Errorf("by default, %s may %s", r.component, r.what)
		}
	}
}

// TestMonitors: each monitor selects, in the namespaces that it names, the pods of every
// component that serves metrics at its port: node agents in a namespace of their own and the
// scheduler, too.
func TestMonitors(t *testing.T) {
	v := everywhere(nil)
	v["node"] = values{"enabled": true, "namespace": "agents", "createNamespace": true}
	v["monitoring"] = values{"podMonitor": values{"enabled": true}, "serviceMonitor": values{"enabled": true}}
	found, objects := workloads(t, v)
	want := map[string]int{}
	for component, namespace := range map[string]string{"": "dra-steward", "controller": "dra-steward", "node": "agents", "scheduler": "dra-steward"} {
		for _, kind := range []string{"PodMonitor", "ServiceMonitor"} {
			want[kind+" "+namespace+"/"+component]++
		}
	}
	got := map[string]int{}
	for _, monitor := range objects {
		for _, namespace := range scrapedNamespaces(monitor) {
			for component, template := range found {
				if own := map[bool]string{true: "agents", false: "dra-steward"}[component == "node"]; own == namespace && scrapes(monitor, objects, namespace, template) {
					got[monitor.GetKind()+" "+namespace+"/"+component]++
				}
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("scraped are %v, want %v", got, want)
	}
}

// TestMonitorsHonorLabels: namespace, pod, container and endpoint of our metrics are not those of the
// pod that is scraped.
func TestMonitorsHonorLabels(t *testing.T) {
	v := everywhere(nil)
	v["monitoring"] = values{"podMonitor": values{"enabled": true}, "serviceMonitor": values{"enabled": true}}
	_, objects := workloads(t, v)
	monitors := 0
	for _, object := range objects {
		list, is := map[string]string{"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}[object.GetKind()]
		if !is {
			continue
		}
		monitors++
		endpoints, _, _ := unstructured.NestedSlice(object.Object, "spec", list)
		for _, endpoint := range endpoints {
			if endpoint.(map[string]any)["honorLabels"] != true {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), endpoint)
			}
		}
	}
	if monitors != 4 {
		t.Errorf("%d monitors, want those of the steward and of the scheduler", monitors)
	}
}

// scrapedNamespaces are those that a monitor selects; none for other objects.
func scrapedNamespaces(monitor *unstructured.Unstructured) []string {
	if kind := monitor.GetKind(); kind != "PodMonitor" && kind != "ServiceMonitor" {
		return nil
	}
	if names, ok, _ := unstructured.NestedStringSlice(monitor.Object, "spec", "namespaceSelector", "matchNames"); ok {
		return names
	}
	return []string{monitor.GetNamespace()}
}

// scrapes reports whether a monitor selects pods of a namespace, if it is a ServiceMonitor by
// way of a Service, and they have its port.
func scrapes(monitor *unstructured.Unstructured, objects []*unstructured.Unstructured, namespace string, pod corev1.PodTemplateSpec) bool {
	matches := func(set labels.Set, in *unstructured.Unstructured, path ...string) bool {
		selector, _, _ := unstructured.NestedStringMap(in.Object, path...)
		return labels.SelectorFromSet(selector).Matches(set)
	}
	has := func(port string) bool {
		return slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
	}
	port := func(list string) string {
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", list)
		return fmt.Sprint(endpoints[0].(map[string]any)["port"])
	}
	if monitor.GetKind() == "PodMonitor" {
		return has(port("podMetricsEndpoints")) && matches(pod.Labels, monitor, "spec", "selector", "matchLabels")
	}
	return slices.ContainsFunc(objects, func(service *unstructured.Unstructured) bool {
		if service.GetKind() != "Service" || service.GetNamespace() != namespace || !matches(service.GetLabels(), monitor, "spec", "selector", "matchLabels") {
			return false
		}
		ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
		return slices.ContainsFunc(ports, func(p any) bool {
			own := p.(map[string]any)
			return own["name"] == port("endpoints") && has(fmt.Sprint(own["targetPort"]))
		}) && matches(pod.Labels, service, "spec", "selector")
	})
}

// TestAbsentHasItsJob: an alert on absent metrics names the job under which the chart's own
// monitors scrape, so that another release cannot hide that this one is gone. Without
// monitors the job is not known.
func TestAbsentHasItsJob(t *testing.T) {
	for want, monitors := range map[string]values{
		`absent(dra_steward_webhook_ready == 1)`:                                 {},
		`absent(dra_steward_webhook_ready{job="dra-steward/dra-steward"} == 1)`:  {"podMonitor": values{"enabled": true}},
		`absent(dra_steward_webhook_ready{job="dra-steward-metrics"} == 1)`:      {"serviceMonitor": values{"enabled": true}},
		`absent(dra_steward_controller_leading{job="dra-steward-metrics"} == 1)`: {"serviceMonitor": values{"enabled": true}, "secure": false},
		`{job=~"dra-steward/dra-steward|dra-steward-metrics"} == 1)`:             {"podMonitor": values{"enabled": true}, "serviceMonitor": values{"enabled": true}},
	} {
		monitors["alerts"] = values{"enabled": true}
		objects, err := Render(with(values{"monitoring": monitors}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if object.GetKind() == "PrometheusRule" && !strings.Contains(fmt.Sprint(object.Object), want) {
				t.Errorf("no alert has %s", want)
			}
		}
	}
}

// TestRolesForPeople: the aggregated role only reads our own types, the role for people on
// call writes drains and taint rules alone, and is not aggregated.
func TestRolesForPeople(t *testing.T) {
	roles := render(t, with(nil), Options{}).people
	view, oncall := roles["dra-steward-view"], roles["dra-steward-oncall"]
	if view.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" || oncall.AggregationRule != nil {
		t.Error("the role view is not aggregated")
	}
	for label := range oncall.Labels {
		if strings.Contains(label, "aggregate") {
			t.Errorf("the role for people on call has the label %s", label)
		}
	}
	for _, rule := range view.Rules {
		if !slices.Equal(rule.APIGroups, []string{"dra-steward.io"}) || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("view: %+v", rule)
		}
	}
	for _, rule := range oncall.Rules {
		writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
		if writes && (len(rule.Resources) != 1 || !slices.Contains([]string{"devicedrains", "devicereactions", "devicerolls", "devicetaintrules"}, rule.Resources[0])) {
			t.Errorf("on call: writes %+v", rule)
		}
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
			t.Errorf("on call: reads %+v", rule)
		}
	}
	if off := render(t, with(values{"rbac": values{"aggregateToView": false, "oncall": false}}), Options{}).people; len(off) != 0 {
		t.Errorf("switched off: %v", off)
	}
}
