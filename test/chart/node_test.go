package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// nodeAgent renders the node agent.
func nodeAgent(t *testing.T, v values) (agent *appsv1.DaemonSet, role *rbacv1.ClusterRole, kinds []string) {
	t.Helper()
	v["enabled"] = true
	objects, err := Render(with(values{"node": v}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetLabels()["app.kubernetes.io/component"] != "node" {
			continue
		}
		kinds = append(kinds, object.GetKind())
		var into any
		switch object.GetKind() {
		case "DaemonSet":
			agent = &appsv1.DaemonSet{}
			into = agent
		case "ClusterRole":
			role = &rbacv1.ClusterRole{}
			into = role
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatal(err)
		}
	}
	return agent, role, kinds
}

// TestNodeNetworkPools: an agent reads the slices of network pools only if it is asked to.
func TestNodeNetworkPools(t *testing.T) {
	for _, on := range []bool{false, true} {
		agent, _, _ := nodeAgent(t, values{"networkPools": on})
		if got := slices.Contains(agent.Spec.Template.Spec.Containers[0].Args, "--network-pools"); got != on {
			t.Errorf("node.networkPools=%t: the argument is there: %t", on, got)
		}
	}
}

// The node agent is off unless it is asked for. It reads only the folders that it is told
// to, all read only, and not the one with the socket at which device plugins register.
func TestNodeAgent(t *testing.T) {
	objects, err := Render(with(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetLabels()["app.kubernetes.io/component"] == "node" {
			t.Errorf("%s %s although it is off", object.GetKind(), object.GetName())
		}
	}
	for name, tt := range map[string]struct {
		values values
		want   []string
	}{
		"default":        {values{}, []string{"/var/lib/kubelet/pod-resources", "/etc/cdi", "/var/run/cdi", "/dev"}},
		"everything":     {values{"hostPaths": []any{"/"}}, []string{"/var/lib/kubelet/pod-resources", "/"}},
		"checkpoint":     {values{"checkpoint": true, "kubeletRoot": "/data/kubelet"}, []string{"/data/kubelet/pod-resources", "/etc/cdi", "/var/run/cdi", "/dev", "/data/kubelet"}},
		"runtime":        {values{"criSocket": "/run/containerd/containerd.sock"}, []string{"/var/lib/kubelet/pod-resources", "/etc/cdi", "/var/run/cdi", "/dev", "/run/containerd"}},
		"CRI-O":          {values{"criSocket": "/var/run/crio/crio.sock"}, []string{"/var/lib/kubelet/pod-resources", "/etc/cdi", "/var/run/cdi", "/dev", "/var/run/crio"}},
		"device plugins": {values{"devicePlugins": true}, []string{"/var/lib/kubelet/pod-resources", "/etc/cdi", "/var/run/cdi", "/dev", "/var/lib/kubelet/device-plugins"}},
	} {
		agent, _, _ := nodeAgent(t, tt.values)
		pod := agent.Spec.Template.Spec
		var folders []string
		for _, volume := range pod.Volumes {
			folders = append(folders, volume.HostPath.Path)
		}
		if !slices.Equal(folders, tt.want) {
			t.Errorf("%s: folders %v, want %v", name, folders, tt.want)
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if !mount.ReadOnly {
				t.Errorf("%s: %s can be written", name, mount.MountPath)
			}
		}
	}
}

// But for user 0 and folders of the node it is as the level restricted of Pod Security asks.
func TestNodeAgentIsTight(t *testing.T) {
	agent, role, _ := nodeAgent(t, values{})
	pod := agent.Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("it needs no namespaces of the node")
	}
	c := pod.Containers[0].SecurityContext
	if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || c.Privileged != nil || len(c.Capabilities.Add) != 0 || c.Capabilities.Drop[0] != "ALL" {
		t.Errorf("security context: %+v", c)
	}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			writes := !slices.Contains([]string{"get", "list", "watch"}, verb)
			if writes && !slices.Equal(rule.Resources, []string{"events"}) || slices.Contains(rule.Resources, "secrets") {
				t.Errorf("%s on %v", verb, rule.Resources)
			}
		}
	}
	if _, role, _ := nodeAgent(t, values{"events": false}); slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "events") }) {
		t.Error("without events it needs no right to write them")
	}
}

// It gets a namespace of its own if that is wanted.
func TestNodeNamespace(t *testing.T) {
	agent, _, kinds := nodeAgent(t, values{"namespace": "node-agents", "createNamespace": true})
	if agent.Namespace != "node-agents" || !slices.Contains(kinds, "Namespace") {
		t.Errorf("namespace %s, kinds %v", agent.Namespace, kinds)
	}
	_, err := Render(with(values{"node": values{"enabled": true, "createNamespace": true}}), Options{})
	if err == nil || !strings.Contains(err.Error(), "node.namespace must name another namespace than that of the release") {
		t.Errorf("got %v", err)
	}
}

// TestSameFolderTwice: a folder in two spellings is mounted once.
func TestSameFolderTwice(t *testing.T) {
	v := everywhere(nil)
	v["node"].(values)["hostPaths"] = []any{"/dev", "/dev/", "/etc/cdi"}
	found, _ := workloads(t, v)
	mounted := map[string]int{}
	for _, mount := range found["node"].Spec.Containers[0].VolumeMounts {
		mounted[mount.MountPath]++
	}
	if mounted["/host/dev"] != 1 || mounted["/host/etc/cdi"] != 1 {
		t.Errorf("got %v", mounted)
	}
}

// TestEnvironmentOnce: a variable of the site takes the place of the chart's. Server-side apply refuses a name twice.
func TestEnvironmentOnce(t *testing.T) {
	found, _ := workloads(t, everywhere(values{"extraEnv": []any{values{"name": "GOMEMLIMIT", "value": "1GiB"}}}))
	for component, template := range found {
		var got []string
		for _, e := range template.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" {
				got = append(got, e.Value)
			}
		}
		if len(got) != 1 || got[0] != "1GiB" {
			t.Errorf("component %q: GOMEMLIMIT is %v", component, got)
		}
	}
}
