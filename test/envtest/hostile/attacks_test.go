package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	driver   = "gpu.example.com"
	reserved = "example.com/lost"
	tier     = "example.com/tier"
	// maxDevices is what one claim, or one pod with an extended resource, may ask for.
	maxDevices = 2
	// mark is replaced in an attack, so that none is like another one, self by the name of
	// the tenant's namespace.
	mark = "m0000000000"
	self = "tenant-self"
	// violation begins the name of each object that must not be stored, violated is a label
	// that no update may have set.
	violation = "violation-"
	violated  = "example.com/violated"
	// target begins the names of the objects that a tenant has stored, to change them.
	target = "target"
)

// The types of patches and of other bodies.
const (
	asJSON  = "application/json"
	merge   = string(types.MergePatchType)
	patch   = string(types.JSONPatchType)
	applied = string(types.ApplyYAMLPatchType)
)

// An attack is a write that a tenant repeats.
type attack struct {
	name     string
	resource string
	body     []byte
	// violates says that the object must not be stored, whatever it costs.
	violates bool
	// version is that of the API: v1 by default, for DeviceTaintRules the newest that there is.
	version string
	// object and subresource are what it changes; without them it creates.
	verb, content, object, subresource string
	// frozen says that the API server itself refuses the change.
	frozen bool
	// open says that it is not denied while a replica that was killed is asked: the webhooks for
	// classes and for rules that the guard lets through are always Ignore.
	open bool
}

// of is the body or a name in an attack, unlike those with other numbers.
func (a attack) of(text []byte, n int64, namespace string) []byte {
	text = bytes.ReplaceAll(text, []byte(self), []byte(namespace))
	return bytes.ReplaceAll(text, []byte(mark), fmt.Appendf(nil, "m%010d", n))
}

func toleration(key string, effect resourceapi.DeviceTaintEffect, seconds *int64) resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists, Effect: effect, TolerationSeconds: seconds}
}

func request(name string, count int64, tolerations ...resourceapi.DeviceToleration) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver,
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Tolerations: tolerations}}
}

// wide has as many requests and alternatives as an API server admits; fill adds to each.
func wide(fill func(i int, alternative *resourceapi.DeviceSubRequest)) []resourceapi.DeviceRequest {
	var requests []resourceapi.DeviceRequest
	for i := range resourceapi.DeviceRequestsMaxSize {
		r := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		for j := range resourceapi.FirstAvailableDeviceRequestMaxSize {
			alternative := resourceapi.DeviceSubRequest{Name: fmt.Sprint("a", j), DeviceClassName: driver,
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
			fill(i*resourceapi.FirstAvailableDeviceRequestMaxSize+j, &alternative)
			r.FirstAvailable = append(r.FirstAvailable, alternative)
		}
		requests = append(requests, r)
	}
	return requests
}

// tolerant has so many distinct tolerations in each list.
func tolerant(perList int) []resourceapi.DeviceRequest {
	return wide(func(i int, alternative *resourceapi.DeviceSubRequest) {
		for k := range perList {
			alternative.Tolerations = append(alternative.Tolerations,
				toleration("example.com/"+mark, resourceapi.DeviceTaintEffectNoExecute, new(int64(i*1000+k))))
		}
	})
}

// selective has so many selectors in each alternative.
func selective(perList int, expression func(n int) string) []resourceapi.DeviceRequest {
	return wide(func(i int, alternative *resourceapi.DeviceSubRequest) {
		for k := range perList {
			alternative.Selectors = append(alternative.Selectors,
				resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression(i*100 + k)}})
		}
	})
}

// costlyCEL is close to the cost that an API server admits.
func costlyCEL(n int) string {
	const ten = "[1,2,3,4,5,6,7,8,9,10]"
	return fmt.Sprintf(`%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a+b+c+d+%[2]d > 0)))) && "%[3]s" != ""`, ten, n, mark)
}

// longCEL is as long as an expression may be.
func longCEL(n int) string {
	return fmt.Sprintf(`"%s%d" == "%s"`, mark, n, strings.Repeat("x", 10<<10-64))
}

func claimSpec(requests ...resourceapi.DeviceRequest) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}
}

// opaque has the largest parameters of a driver.
func opaque() resourceapi.ResourceClaimSpec {
	spec := claimSpec(request("gpu", 1))
	for i := range resourceapi.DeviceConfigMaxSize {
		raw := fmt.Appendf(nil, `{"apiVersion":"gpu.example.com/v1","kind":"GpuConfig","%s":%d,"text":%q}`, mark, i, strings.Repeat("x", 10<<10-128))
		spec.Devices.Config = append(spec.Devices.Config, resourceapi.DeviceClaimConfiguration{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{Raw: raw}}}})
	}
	return spec
}

// costlySpecs are valid, or nearly so, and expensive to check.
func costlySpecs() map[string]resourceapi.ResourceClaimSpec {
	return map[string]resourceapi.ResourceClaimSpec{
		"16 tolerations per list":           claimSpec(tolerant(16)...),
		"28 tolerations per list":           claimSpec(tolerant(28)...),
		"40 tolerations per list":           claimSpec(tolerant(40)...),
		"selectors at the cost limit":       claimSpec(selective(4, costlyCEL)...),
		"1 selector of 10 KB per list":      claimSpec(selective(1, longCEL)...),
		"32 parameters of 10 KB":            opaque(),
		"selectors below the site's limits": claimSpec(selective(1, costlyCEL)[:4]...),
	}
}

// violatingSpecs break a policy in mode deny.
func violatingSpecs() map[string]resourceapi.ResourceClaimSpec {
	other := request("gpu", 1)
	other.Exactly.DeviceClassName = "other.example.com"
	return map[string]resourceapi.ResourceClaimSpec{
		"wildcard":       claimSpec(request("gpu", 1, toleration("", "", nil))),
		"reserved key":   claimSpec(request("gpu", 1, toleration(reserved, resourceapi.DeviceTaintEffectNoExecute, nil))),
		"devices":        claimSpec(request("gpu", maxDevices+1)),
		"device class":   claimSpec(other),
		"many small":     claimSpec(request("a", 1), request("b", 1), request("c", 1)),
		"last of a wide": claimSpec(append(selective(0, nil)[:3], request("gpu", 1, toleration("", "", nil)))...),
	}
}

func encode(object any) []byte {
	body, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return body
}

func evicting(from resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{GenerateName: violation}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &from, Taint: resourceapi.DeviceTaint{Key: "example.com/mine", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
}

// attacks are all kinds of writes that a tenant has the right to.
// served are the resources of each version of the API beside v1.
func attacks(served map[string][]string) (costly, violating []attack) {
	both := func(name, prefix string, spec resourceapi.ResourceClaimSpec, violates bool) []attack {
		meta := metav1.ObjectMeta{GenerateName: prefix}
		return []attack{
			{name: "claim: " + name, resource: "resourceclaims", body: encode(&resourceapi.ResourceClaim{ObjectMeta: meta, Spec: spec}), violates: violates},
			{name: "template: " + name, resource: "resourceclaimtemplates", body: encode(&resourceapi.ResourceClaimTemplate{ObjectMeta: meta,
				Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}), violates: violates},
		}
	}
	for name, spec := range costlySpecs() {
		if len(spec.Devices.Requests) > maxDevices {
			costly = append(costly, both(name, violation, spec, true)...)
			continue
		}
		costly = append(costly, both(name, "costly-", spec, false)...)
		spec.Devices.Requests[0] = violatingSpecs()["wildcard"].Devices.Requests[0]
		costly = append(costly, both(name+" and a wildcard", violation, spec, true)...)
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "costly-"}}
	for i := range resourceapi.DeviceSelectorsMaxSize {
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: costlyCEL(i)}})
	}
	costly = append(costly, attack{name: "class: selectors at the cost limit", resource: "deviceclasses", body: encode(class)}, changedClass(class.Spec), changedLabel())
	for name, spec := range violatingSpecs() {
		violating = append(violating, both(name, violation, spec, true)...)
	}
	amount := corev1.ResourceList{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + driver): *resource.NewQuantity(maxDevices+1, resource.DecimalSI)}
	violating = append(violating,
		attack{name: "pod: extended resource", resource: "pods", violates: true, body: encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: violation}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Limits: amount, Requests: amount}}}}})},
		attack{name: "rule: every device", resource: "devicetaintrules", violates: true, body: encode(evicting(resourceapi.DeviceTaintSelector{}))},
	)
	if cluster.Minor() != "1.34" { // there a rule without a preview violates nothing, for there are no previews
		violating = append(violating, attack{name: "rule: every device of a driver", resource: "devicetaintrules", violates: true, open: true,
			body: encode(evicting(resourceapi.DeviceTaintSelector{Driver: new(driver)}))})
	}
	return costly, slices.Concat(violating, older(violating, served), updates(), labels())
}
