package podtemplate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/foresight/podtemplate"
)

func objects() *podtemplate.Objects {
	name := "example.com/accelerator"
	o := &podtemplate.Objects{}
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "card"}, {Name: "port"}}}}
	o.Add(&resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "cards", Namespace: "lab"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}})
	o.Add(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared", Namespace: "lab"}, Spec: spec})
	o.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "accelerator.example.com"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}})
	return o
}

// TestCheck: each mistake is one finding with what would be right, in whatever has the pod.
func TestCheck(t *testing.T) {
	for name, test := range map[string]struct{ claims, resources, want string }{
		"right":                     {"{name: a, resourceClaimTemplateName: cards}", "claims: [{name: a, request: port}]", ""},
		"a claim":                   {"{name: a, resourceClaimName: shared}", "claims: [{name: a}]", ""},
		"no devices":                {"", "limits: {cpu: 1}", "none"},
		"source":                    {"{name: a, source: {resourceClaimName: shared}}", "claims: [{name: a}]", "resourceClaims[0].source: the field was removed"},
		"neither":                   {"{name: a}", "claims: [{name: a}]", "resourceClaims[0]: must have resourceClaimName or"},
		"both":                      {"{name: a, resourceClaimName: shared, resourceClaimTemplateName: cards}", "claims: [{name: a}]", "not both"},
		"twice":                     {"{name: a, resourceClaimName: shared}, {name: a, resourceClaimName: shared}", "claims: [{name: a}]", "resourceClaims[1].name: Duplicate value"},
		"template":                  {"{name: a, resourceClaimTemplateName: card}", "claims: [{name: a}]", `resourceClaimTemplateName: there is no ResourceClaimTemplate "card" in the namespace lab: did you mean cards?`},
		"claim":                     {"{name: a, resourceClaimName: sharde}", "claims: [{name: a}]", `did you mean shared?`},
		"container":                 {"{name: gpu, resourceClaimName: shared}", "claims: [{name: gpuu}]", `resources.claims[0].name: spec.resourceClaims has no claim "gpuu": did you mean gpu?`},
		"request":                   {"{name: a, resourceClaimName: shared}", "claims: [{name: a, request: prt}]", `has no request "prt": its requests are card, port: did you mean port?`},
		"unused":                    {"{name: a, resourceClaimName: shared}", "{}", "warning: PATH.resourceClaims[0]: no container uses"},
		"wrong type":                {"{name: [a]}", "{}", "cannot be read"},
		"extended":                  {"", "limits: {example.com/accelerator: 1}", ""},
		"extended without limit":    {"", "requests: {example.com/accelerator: 1}", "resources.requests[example.com/accelerator]: must be in limits too"},
		"extended misspelt":         {"", "limits: {example.com/acelerator: 1}", "did you mean example.com/accelerator?"},
		"of a device plugin":        {"", "limits: {vendor.example.org/gpu: 1}", "none"},
		"class as a resource":       {"", "limits: {deviceclass.resource.kubernetes.io/accelerator.example.com: 1}", ""},
		"class that does not exist": {"", "limits: {deviceclass.resource.kubernetes.io/acelerator.example.com: 1}", "did you mean accelerator.example.com?"},
	} {
		for kind, form := range map[string]string{
			"spec":                                   `{kind: Pod, spec: %s}`,
			"spec.template.spec":                     `{kind: Deployment, spec: {template: {spec: %s}}}`,
			"spec.jobTemplate.spec.template.spec":    `{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: %s}}}}}`,
			"template.spec":                          `{kind: PodTemplate, template: {spec: %s}}`,
			"spec.workerGroupSpecs[0].template.spec": `{kind: RayCluster, spec: {workerGroupSpecs: [{template: {spec: %s}}]}}`,
			"spec.replicatedJobs[0].template.spec.template.spec": `{kind: JobSet, spec: {replicatedJobs: [{template: {spec: {template: {spec: %s}}}}]}}`,
		} {
			resources := "{" + strings.Trim(test.resources, "{}") + "}"
			if strings.Contains(test.resources, "{") && test.resources != "{}" {
				resources = "{" + test.resources + "}"
			}
			raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, form, fmt.Sprintf("{resourceClaims: [%s], containers: [{name: main, resources: %s}]}", test.claims, resources)))
			if err != nil || !json.Valid(raw) {
				t.Fatalf("%s: %v", name, err)
			}
			found, any := podtemplate.Check("lab", raw, objects())
			var said []string
			for _, f := range found {
				severity := "error: "
				if f.Warning {
					severity = "warning: "
				}
				said = append(said, severity+f.Path+": "+f.Message)
			}
			switch want := strings.ReplaceAll(test.want, "PATH", kind); {
			case want == "none" || want == "":
				if len(said) > 0 || any != (want == "") {
					t.Errorf("%s, %s: %q, uses devices: %v", name, kind, said, any)
				}
			case len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(said[0], kind):
				if name == "wrong type" && len(said) == 1 && strings.Contains(said[0], want) {
					continue
				}
				t.Errorf("%s, %s: %q, want one with %q", name, kind, said, want)
			}
		}
	}
}

// TestUnknown: what the input has no object of is a warning, or is not known.
func TestUnknown(t *testing.T) {
	raw := []byte(`{"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "cards"}], "containers": [{"resources": {"claims": [{"name": "a", "request": "any"}], "limits": {"deviceclass.resource.kubernetes.io/x": 1}}}]}}`)
	found, any := podtemplate.Check("lab", raw, &podtemplate.Objects{})
	if len(found) != 1 || !found[0].Warning || !any || found[0].Rule != podtemplate.Exists {
		t.Errorf("%+v", found)
	}
}
