// Package extendedresources keeps the webhook for pods in step with the DeviceClasses.
//
// A pod may ask for devices by an extended resource in its limits, and the scheduler then
// creates the claim. The chart's webhook for pods receives only pods with an implicit name,
// deviceclass.resource.kubernetes.io/<class>. For the names that DeviceClasses declare
// (extendedResourceName), the controller adds a second webhook to the same configuration: a
// copy of the chart's, with a match condition that lists these names. Other pods are never
// sent.
package extendedresources

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

const (
	// ImplicitWebhook is the webhook of the chart, which receives pods with implicit names.
	ImplicitWebhook = "extendedresources.pods.dra-steward.io"
	// ListedWebhook is the webhook of the controller, which receives pods with declared names.
	ListedWebhook = "listed-extendedresources.pods.dra-steward.io"

	// condition is the match condition of both webhooks that looks at names.
	condition = "asks-for-extended-resources"
	// longest is the size in bytes up to which a match condition lists the names. The API
	// server refuses expressions of 100,000 characters.
	longest = 64 << 10
)

// Names returns the names that classes declare, sorted and without duplicates. Implicit names
// are left out, since the webhook of the chart receives them.
func Names(classes []*resourceapi.DeviceClass) []string {
	var names []string
	for _, class := range classes {
		name := class.Spec.ExtendedResourceName
		if name != nil && *name != "" && !strings.HasPrefix(*name, resourceapi.ResourceDeviceClassPrefix) {
			names = append(names, *name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Condition returns a CEL expression that is true for pods with a resource for which the
// predicate on name is true, in containers, init containers or the pod's own resources.
func Condition(predicate string) string {
	return fmt.Sprintf(`(object.spec.containers + object.spec.?initContainers.orValue([]) + [object.spec]).exists(holder,
holder.?resources.?limits.orValue({}).exists(name, %[1]s) ||
holder.?resources.?requests.orValue({}).exists(name, %[1]s))`, predicate)
}

// listed is the predicate for a list of names. A map costs the same to look up whatever its
// size. A list that is too long for an expression is replaced by all names with a domain, so
// that no pod is missed.
func listed(names []string) (string, error) {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	literal, err := json.Marshal(known)
	if err != nil {
		return "", err
	}
	if 2*len(literal) > longest { // an expression has the predicate twice
		return "name.contains('/')", nil
	}
	return "name in " + string(literal), nil
}

// A Change is what to do about the webhook for declared names.
type Change struct {
	// Index is the place of the webhook in the configuration, -1 if it has to be added.
	Index int
	// Webhook is the webhook as it should be, nil if it has to be removed.
	Webhook *admissionv1.ValidatingWebhook
}

// Decide compares the webhooks of the configuration with the declared names and returns what
// to change, nil if they agree. Without the webhook of the chart, or without names, there is
// no webhook for declared names.
func Decide(webhooks []admissionv1.ValidatingWebhook, names []string) (*Change, error) {
	index := find(webhooks, ListedWebhook)
	implicit := find(webhooks, ImplicitWebhook)
	if implicit < 0 || len(names) == 0 {
		if index < 0 {
			return nil, nil
		}
		return &Change{Index: index}, nil
	}
	want := webhooks[implicit].DeepCopy()
	want.Name = ListedWebhook
	predicate, err := listed(names)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(want.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == condition })
	if at < 0 {
		return nil, fmt.Errorf("webhook %s has no match condition %s, which the chart renders", ImplicitWebhook, condition)
	}
	want.MatchConditions[at].Expression = Condition(predicate)
	if index >= 0 && apiequality.Semantic.DeepEqual(webhooks[index], *want) {
		return nil, nil
	}
	return &Change{Index: index, Webhook: want}, nil
}

func find(webhooks []admissionv1.ValidatingWebhook, name string) int {
	return slices.IndexFunc(webhooks, func(w admissionv1.ValidatingWebhook) bool { return w.Name == name })
}

// Patch returns the change as a JSON patch that fails with a conflict if the configuration is
// no longer of this version.
func (c Change) Patch(resourceVersion string) ([]byte, error) {
	operation := map[string]any{"op": "add", "path": "/webhooks/-", "value": c.Webhook}
	switch {
	case c.Webhook == nil:
		operation = map[string]any{"op": "remove", "path": fmt.Sprint("/webhooks/", c.Index)}
	case c.Index >= 0:
		operation = map[string]any{"op": "replace", "path": fmt.Sprint("/webhooks/", c.Index), "value": c.Webhook}
	}
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": resourceVersion}, operation,
	})
}
