package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// olderVersions are those of the API that a tenant may use instead of v1.
func olderVersions() []string { return []string{"v1beta2", "v1beta1"} }

// olderServed returns the resources of each older version that the API server has.
func olderServed(admin kubernetes.Interface) map[string][]string {
	served := map[string][]string{}
	for _, version := range olderVersions() {
		list, err := admin.Discovery().ServerResourcesForGroupVersion(resourceapi.GroupName + "/" + version)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			served[version] = append(served[version], resource.Name)
		}
	}
	return served
}

// older are the same violations through older versions of the API.
func older(violating []attack, served map[string][]string) (all []attack) {
	for _, a := range violating {
		for version, resources := range served {
			if !slices.Contains(resources, a.resource) {
				continue
			}
			b := a
			b.name, b.version = a.name+" in "+version, version
			if version == "v1beta1" {
				b.body = flat(a.body)
			}
			all = append(all, b)
		}
	}
	return all
}

// flat is a claim or a template as v1beta1 has it: the fields of exactly are those of the request.
func flat(body []byte) []byte {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		panic(err)
	}
	spec, _ := object["spec"].(map[string]any)
	if inner, is := spec["spec"].(map[string]any); is {
		spec = inner
	}
	devices, _ := spec["devices"].(map[string]any)
	requests, _ := devices["requests"].([]any)
	for _, one := range requests {
		request, _ := one.(map[string]any)
		exactly, _ := request["exactly"].(map[string]any)
		delete(request, "exactly")
		maps.Copy(request, exactly)
	}
	return encode(object)
}

// parameters of a class that do not match the schema of their driver.
const wrongParameters = `{"config":[{"opaque":{"driver":"` + driver + `","parameters":{"apiVersion":"gpu.resource.example.com/v1alpha1","kind":"GpuConfig","sharing":5}}}]}`

// updates are violating changes of what a tenant has stored, and objects that a patch creates.
func updates() (all []attack) {
	labelled := `{"metadata":{"labels":{"` + violated + `":"` + mark + `"}},"spec":`
	for _, broken := range violatingSpecs() {
		spec := string(encode(broken))
		all = append(all,
			attack{name: "claim: changed", resource: "resourceclaims", body: []byte(labelled + spec + "}"), verb: "PATCH", content: merge, object: target, frozen: true, violates: true},
			attack{name: "template: changed", resource: "resourceclaimtemplates", body: []byte(labelled + `{"spec":` + spec + "}}"), verb: "PATCH", content: merge, object: target, frozen: true, violates: true},
			attack{name: "claim: applied", resource: "resourceclaims", verb: "PATCH", content: applied, object: violation + mark, violates: true,
				body: []byte(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"` + violation + mark + `"},"spec":` + spec + "}")},
			attack{name: "template: applied", resource: "resourceclaimtemplates", verb: "PATCH", content: applied, object: violation + mark, violates: true,
				body: []byte(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"` + violation + mark + `"},"spec":{"spec":` + spec + "}}")})
	}
	all = append(all,
		attack{name: "rule: changed to evict from every device", resource: "devicetaintrules", body: []byte(labelled + `{"deviceSelector":{"driver":null,"pool":null},"taint":{"effect":"NoExecute"}}}`), verb: "PATCH", content: merge, object: target + "-" + self, violates: true},
		attack{name: "class: changed parameters", resource: "deviceclasses", body: []byte(labelled + wrongParameters + "}"), verb: "PATCH", content: merge, object: target + "-" + self, violates: true, open: true},
		attack{name: "class: wrong parameters", resource: "deviceclasses", body: []byte(`{"metadata":{"generateName":"` + violation + `"},"spec":` + wrongParameters + "}"), violates: true, open: true})
	return all
}

// labels are the ways to set a protected label of the tenant's own namespace.
func labels() []attack {
	labelled := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + self + `","labels":{"` + tier + `":"gold"}},"spec":{"finalizers":["kubernetes"]}}`)
	all := []attack{
		{name: "namespace: label", body: []byte(`{"metadata":{"labels":{"` + tier + `":"gold"}}}`), verb: "PATCH", content: merge},
		{name: "namespace: label by status", body: []byte(`{"metadata":{"labels":{"` + tier + `":"gold"}}}`), verb: "PATCH", content: merge, subresource: "status"},
		{name: "namespace: label by JSON patch", body: []byte(`[{"op":"add","path":"/metadata/labels/example.com~1tier","value":"gold"}]`), verb: "PATCH", content: patch},
		{name: "namespace: label applied", body: labelled, verb: "PATCH", content: applied},
		{name: "namespace: label by replacement", body: labelled, verb: "PUT"},
		{name: "namespace: label by finalize", body: labelled, verb: "PUT", subresource: "finalize"},
	}
	for i := range all {
		all[i].resource, all[i].object, all[i].violates = "namespaces", self, true
	}
	return all
}

// changedClass changes the tenant's class into a costly one.
func changedClass(spec resourceapi.DeviceClassSpec) attack {
	return attack{name: "class: changed to selectors at the cost limit", resource: "deviceclasses", verb: "PATCH", content: merge, object: target + "-" + self,
		body: encode(map[string]any{"spec": spec})}
}

// changedLabel is the only change that a template admits: its metadata.
func changedLabel() attack {
	return attack{name: "template: a label", resource: "resourceclaimtemplates", verb: "PATCH", content: merge, object: target,
		body: []byte(`{"metadata":{"labels":{"example.com/serial":"` + mark + `"}}}`)}
}

// targets stores what the tenant changes later.
func (n *tenant) targets(t *testing.T) {
	t.Helper()
	resources, ctx := n.clients.ResourceV1(), t.Context()
	meta, global := metav1.ObjectMeta{Name: target}, metav1.ObjectMeta{Name: target + "-" + n.namespace}
	_, err := resources.ResourceClaims(n.namespace).Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: ordinary().Spec}, metav1.CreateOptions{})
	mustExist(t, err)
	_, err = resources.ResourceClaimTemplates(n.namespace).Create(ctx, &resourceapi.ResourceClaimTemplate{ObjectMeta: meta,
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: ordinary().Spec}}, metav1.CreateOptions{})
	mustExist(t, err)
	n.restore(ctx)
	// The rule does nothing: there is no such pool.
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: global, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(driver), Pool: new("none")}, Taint: resourceapi.DeviceTaint{Key: "example.com/" + n.namespace, Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	mustExist(t, n.write(ctx, attack{resource: "devicetaintrules", body: encode(rule)}, false))
}

// restore makes the tenant's class again: one that is stored with wrong parameters already may be
// stored with the same ones again.
func (n *tenant) restore(ctx context.Context) {
	classes := n.clients.ResourceV1().DeviceClasses()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: target + "-" + n.namespace}}
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := classes.Delete(ctx, class.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return false, nil
		}
		_, err := classes.Create(ctx, class, metav1.CreateOptions{})
		return err == nil, nil
	})
}

// reach fails the test unless each violation of a tenant is refused while nothing floods, and
// for the reason that it is meant to show: an attack with a mistake in it would show nothing.
func (n *tenant) reach(t *testing.T) {
	t.Helper()
	kinds := map[string]bool{}
	for _, a := range n.violating {
		answer := answerOf(n.write(t.Context(), a, true))
		if want := map[bool]string{true: "invalid", false: "denied"}[a.frozen]; answer != want {
			t.Errorf("%s: %s, want %s", a.name, answer, want)
		}
		kinds[a.name] = true
	}
	t.Logf("%d violations of %d kinds", len(n.violating), len(kinds))
	for _, version := range olderVersions() {
		if !slices.Contains(slices.Collect(maps.Keys(olderServed(n.clients))), version) {
			t.Log(fmt.Sprint("the API server does not serve ", version))
		}
	}
}
