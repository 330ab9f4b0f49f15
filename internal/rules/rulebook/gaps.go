package rulebook

import (
	"fmt"
	"strings"
)

// A Gap is a mistake that no API server refuses, though it causes a failure later.
type Gap struct {
	// What the API server accepts.
	What string
	// IDs are the rules, defaults and form checks that find it.
	IDs []string
	// How adds what else finds or handles it.
	How string
}

// Gaps are the known ones, in the order in which they were found.
func Gaps() []Gap {
	return []Gap{
		{"more than 16 tolerations", []string{"request-tolerations-max"}, ""},
		{"a toleration without a key that becomes Equal", []string{"toleration-empty-key"}, ""},
		{"tolerations for every taint, for reserved keys, or without an end", nil, "policies, because it depends on the user: DRA-TOL-001 and the following"},
		{"tolerationSeconds that are negative or ignored", []string{"toleration-seconds"}, ""},
		{"tolerationSeconds longer than the site allows", []string{"toleration-seconds-max"}, "off unless defaults.tolerations has maxSeconds"},
		{"tolerations in an allocation that its request does not have", []string{"allocation-tolerations"}, ""},
		{"an allocation without the finalizer", []string{"allocation-finalizer", "claim-finalizer"}, ""},
		{"every apply resets the time of a taint", []string{"taint-time-keep", "taint-time-set"}, ""},
		{"a new effect with the time of the old one", []string{"taint-time-renew"}, ""},
		{"a taint with a time in the future, or a new one with a time long past", []string{"taint-time-future", "taint-time-past"}, ""},
		{"two taints with the same key and effect", []string{"taint-duplicate"}, ""},
		{"a DeviceTaintRule for everything, or without a driver", []string{"taint-rule-everything", "taint-rule-driver", "taint-rule-acknowledgement"}, ""},
		{"a DeviceTaintRule without an end", []string{"taint-rule-expiry"}, "the controller deletes a rule at the time in its annotation dra-steward.io/expires"},
		{"fields that are dropped while a feature gate is off", []string{"field-dropped"}, "in a cluster the mutating webhook warns; nothing else sees the fields"},
		{"what only newer API servers accept", []string{"device-taints-max", "slice-devices-max", "taint-effect", "slice-content"}, "lint --kubernetes-version"},
		{"a step on which an API server crashes", []string{"capacity-step"}, "in a cluster the mutating webhook refuses it"},
		{"counters that do not exist or are negative", []string{"pool-counter-reference", "counter-negative"}, ""},
		{"inconsistent slices of a pool", []string{"pool-device-unique", "pool-counter-set-unique", "pool-slice-count", "pool-generation"}, ""},
		{"a node selector of a device with more than one term", []string{"device-node-selector-terms"}, ""},
		{"names that nothing can match, or that occur twice", []string{"attribute-name-slashes", "constraint-attribute-slashes", "attribute-ambiguous"}, ""},
		{"more devices than an allocation can hold", []string{"claim-devices-max"}, ""},
		{"capacities that no device can have", []string{"request-capacity"}, ""},
		{"matchAttribute and distinctAttribute in one constraint", []string{"constraint-one-attribute"}, ""},
		{"a class that does not exist, or selects everything", []string{"class-exists", "class-everything"}, ""},
		{"a selector that fails on devices, or matches none", []string{"selector-devices", "selector-constant"}, ""},
		{"two classes for one extended resource", []string{"class-extended-resource-unique"}, ""},
		{"opaque parameters that the driver does not accept", []string{"parameters-value", "parameters-field", "parameters-choice", "parameters-kind", "parameters-driver"}, ""},
		{"slices for another node, or of another driver", []string{"slice-node-author", "slice-driver-author", "slice-author-changed"}, ""},
		{"an allocation of more devices than asked for, of one twice, of one that does not exist or that another claim holds", []string{"allocation-devices", "allocation-world"}, ""},
		{"a claim without requests", []string{"claim-empty"}, "a slice without devices is valid: the driver has none"},
		{"a pod deleted by force while its containers use its devices", []string{"pod-force-deletion"}, "off by default: forceDeletion.enabled in the chart"},
		{"the pod of a driver ended before the pods that use its devices", []string{"driver-pod-in-use"}, "off by default: driverPods.enabled in the chart"},
		{"claims from templates, which a controller writes", nil, "every rule for claims also checks templates, where the author is known"},
		{"claims that the scheduler writes for extended resources", nil, "systemUsers in the configuration are never denied"},
	}
}

// gapsMarkdown is the table of the gaps; link makes a link of an ID.
func gapsMarkdown(link func(id string) string) string {
	var b strings.Builder
	b.WriteString(`
## What no API server checks

The known gaps, and the rule that covers each.

| | the API server accepts | found by |
| --- | --- | --- |
`)
	for i, gap := range Gaps() {
		var says []string
		for _, id := range gap.IDs {
			says = append(says, link(id))
		}
		said := strings.Join(says, ", ")
		if gap.How != "" {
			said = strings.TrimPrefix(said+"; "+gap.How, "; ")
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", i+1, gap.What, said)
	}
	return b.String()
}
