package chart

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/pkg/review"
)

func schedulerObjects(t *testing.T, v values) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := Render(with(v), Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		if object.GetLabels()["app.kubernetes.io/component"] == "scheduler" {
			all[object.GetKind()+"/"+object.GetName()] = object
		}
	}
	return all
}

// The scheduler is off unless it is asked for. Then it waits for the Lease of
// kube-scheduler, and only profiles that say so have patches.
func TestScheduler(t *testing.T) {
	if off := schedulerObjects(t, nil); len(off) != 0 {
		t.Errorf("objects of the scheduler although it is off: %v", off)
	}
	on := schedulerObjects(t, values{"scheduler": values{"enabled": true, "profiles": []any{
		values{"schedulerName": "default-scheduler"}, values{"schedulerName": "patched", "patches": true}}}})
	if len(on) != 9 {
		t.Errorf("%d objects", len(on))
	}
	const name = "dra-steward-scheduler"
	text, _, _ := unstructured.NestedString(on["ConfigMap/"+name].Object, "data", "config.yaml")
	var config struct {
		LeaderElection struct{ ResourceNamespace, ResourceName string }
		Profiles       []map[string]any
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if e := config.LeaderElection; e.ResourceNamespace != "kube-system" || e.ResourceName != "kube-scheduler" {
		t.Errorf("Lease %s/%s", e.ResourceNamespace, e.ResourceName)
	}
	if len(config.Profiles) != 2 || config.Profiles[0]["plugins"] != nil || config.Profiles[1]["plugins"] == nil {
		t.Errorf("profiles: %v", config.Profiles)
	}
	for _, bad := range []values{{"profiles": []any{}}, {"profiles": []any{values{"patches": true}}}, {"replicaCount": 0}, {"leaderElect": false}} {
		bad["enabled"] = true
		if _, err := Render(with(values{"scheduler": bad}), Options{}); err == nil || !strings.Contains(err.Error(), "scheduler") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// What it writes is never denied, like what kube-scheduler writes.
func TestSchedulerIsASystemUser(t *testing.T) {
	r := render(t, with(nil), Options{})
	if strings.Contains(r.config.Data["config.yaml"], "systemUsers") {
		t.Error("without the scheduler the users are the built-in ones")
	}
	objects, err := Render(with(values{"scheduler": values{"enabled": true}}), Options{Namespace: "guard"})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "ConfigMap" || object.GetName() != "dra-steward" {
			continue
		}
		text, _, _ := unstructured.NestedString(object.Object, "data", "config.yaml")
		var config struct{ SystemUsers []string }
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		want := append(review.DefaultSystemUsers(), "system:serviceaccount:guard:dra-steward-scheduler")
		if !slices.Equal(config.SystemUsers, want) {
			t.Errorf("got %v, want %v", config.SystemUsers, want)
		}
		return
	}
	t.Error("no configuration")
}

// TestSchedulerVersions: the scheduler renders only for the versions of Kubernetes that it
// supports, unless a value names others.
func TestSchedulerVersions(t *testing.T) {
	for _, tt := range []struct {
		version, supported string
		refused            bool
	}{
		{"1.36.3", "", true},
		{"1.37.0", "", false},
		{"v1.37.2-gke.100", "", false},
		{"v1.38.0-alpha.1", "", false},
		{"1.39.0", "", true},
		{"1.36.3", ">=1.36.0-0", false},
	} {
		v := values{"enabled": true}
		if tt.supported != "" {
			v["kubernetesVersions"] = tt.supported
		}
		_, err := Render(with(values{"scheduler": v}), Options{KubeVersion: tt.version})
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "supports Kubernetes >=1.37.0-0 <1.39.0-0, not "+"v"+strings.TrimPrefix(tt.version, "v")) {
			t.Errorf("%s, %q: %v, want an error: %t", tt.version, tt.supported, err, tt.refused)
		}
	}
}
