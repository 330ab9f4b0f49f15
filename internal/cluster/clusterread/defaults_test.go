package clusterread

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestSetDefaults: a pod of a file requests its limits, and has the ports of its node, as in the API server.
func TestSetDefaults(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"limits", "{containers: [{name: c, resources: {limits: {cpu: 2, example.com/gpu: 1}}}]}",
			"{containers: [{name: c, resources: {limits: {cpu: 2, example.com/gpu: 1}, requests: {cpu: 2, example.com/gpu: 1}}}]}"},
		{"a limit and its request", "{containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 0}}}]}",
			"{containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 0, memory: 1Gi}}}]}"},
		{"an init container", "{initContainers: [{name: i, resources: {limits: {cpu: 2}}}], containers: [{name: c}]}",
			"{initContainers: [{name: i, resources: {limits: {cpu: 2}, requests: {cpu: 2}}}], containers: [{name: c}]}"},
		{"the pod", "{containers: [{name: c}], resources: {limits: {cpu: 2, example.com/gpu: 1}}}",
			"{containers: [{name: c}], resources: {limits: {cpu: 2, example.com/gpu: 1}, requests: {cpu: 2}}}"},
		{"the pod, and a container requests it", "{containers: [{name: c, resources: {requests: {cpu: 1, hugepages-2Mi: 2Mi}}}], resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}}}",
			"{containers: [{name: c, resources: {requests: {cpu: 1, hugepages-2Mi: 2Mi}}}], resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 4Mi}}}"},
		{"the network of the node", "{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80}, {containerPort: 90, hostPort: 91}]}]}",
			"{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}, {containerPort: 90, hostPort: 91}]}]}"},
		{"a network of its own", "{containers: [{name: c, ports: [{containerPort: 80}]}]}", "{containers: [{name: c, ports: [{containerPort: 80}]}]}"},
	} {
		got, want := specOf(t, tt.spec), specOf(t, tt.want)
		setDefaults(got)
		if g, w := text(t, got), text(t, want); g != w {
			t.Errorf("%s: %s, want %s", tt.name, g, w)
		}
	}
}

func specOf(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	spec := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func text(t *testing.T, object any) string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
