package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestPlatforms renders the values of each section of docs/platforms.md, and looks for what the platform needs.
func TestPlatforms(t *testing.T) {
	needs := map[string]func([]*unstructured.Unstructured) error{
		"EKS with another CNI": func(objects []*unstructured.Unstructured) error {
			return all(objects, "Deployment", "webhook", `"hostNetwork":true`, `"dnsPolicy":"ClusterFirstWithHostNet"`, `"containerPort":10260`, `--address=:10260`, `"maxSurge":0`)
		},
		"GKE with private nodes": func(objects []*unstructured.Unstructured) error {
			return all(objects, "Deployment", "webhook", `"containerPort":10250`, `--address=:10250`)
		},
		"AKS": func(objects []*unstructured.Unstructured) error {
			return all(objects, "ValidatingWebhookConfiguration", "webhook", `"admissions.enforcer/disabled":"true"`)
		},
		"OpenShift": func(objects []*unstructured.Unstructured) error {
			for _, object := range objects {
				if text := textOf(object); object.GetKind() == "Deployment" && strings.Contains(text, "runAsUser") {
					return fmt.Errorf("Deployment %s sets a user", object.GetName())
				}
			}
			return nil
		},
		"Talos": func(objects []*unstructured.Unstructured) error {
			return all(objects, "Namespace", "node", `"pod-security.kubernetes.io/enforce":"privileged"`)
		},
		"Egress is denied by default": func(objects []*unstructured.Unstructured) error {
			for _, component := range []string{"webhook", "controller", "uninstall"} {
				if err := all(objects, "NetworkPolicy", component, `"Egress"`, `"port":6443`); err != nil {
					return err
				}
			}
			return nil
		},
		"A ResourceQuota with limits": func(objects []*unstructured.Unstructured) error {
			for _, object := range objects {
				if object.GetKind() == "Deployment" && !strings.Contains(textOf(object), `"limits":{"cpu"`) {
					return fmt.Errorf("Deployment %s has no CPU limit", object.GetName())
				}
			}
			return nil
		},
		"Roles from another pipeline": func(objects []*unstructured.Unstructured) error {
			for _, object := range objects {
				if strings.Contains(object.GetKind(), "Role") && !strings.HasSuffix(object.GetName(), "-view") && !strings.HasSuffix(object.GetName(), "-oncall") {
					return fmt.Errorf("%s %s is rendered", object.GetKind(), object.GetName())
				}
			}
			return nil
		},
	}
	page, err := os.ReadFile("../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(page), "\n## ")[1:] {
		section, text, _ := strings.Cut(text, "\n")
		_, text, found := strings.Cut(text, "```yaml\n")
		if !found {
			continue
		}
		text, _, _ = strings.Cut(text, "```")
		var set values
		if err := yaml.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		if section == "OpenShift" {
			set["scheduler"].(values)["enabled"] = true
		}
		objects, err := Render(with(set), Options{})
		if err != nil {
			t.Errorf("%s: %v", section, err)
			continue
		}
		if needs[section] == nil {
			t.Errorf("%s: say here what its values do", section)
		} else if err := needs[section](objects); err != nil {
			t.Errorf("%s: %v", section, err)
		}
		delete(needs, section)
	}
	for section := range needs {
		t.Errorf("docs/platforms.md has no values in a section %q", section)
	}
}

func textOf(object *unstructured.Unstructured) string {
	text, _ := json.Marshal(object.Object)
	return string(text)
}

// all fails unless the object of a kind and component has each of the texts.
func all(objects []*unstructured.Unstructured, kind, component string, texts ...string) error {
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetLabels()["app.kubernetes.io/component"] == component
	})
	if at < 0 {
		return fmt.Errorf("no %s of %s", kind, component)
	}
	for _, text := range texts {
		if !strings.Contains(textOf(objects[at]), text) {
			return fmt.Errorf("%s of %s lacks %s", kind, component, text)
		}
	}
	return nil
}
