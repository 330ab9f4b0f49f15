package rulebook

import (
	"fmt"
	"strings"
)

// A Gap is something that no API server says, though it goes wrong later.
type Gap struct {
	// What may be written.
	What string
	// IDs are the rules, defaults and checks of form that say it.
	IDs []string
	// How says what else there is to it.
	How string
}

// Gaps are those that are known, in the order in which they were found.
func Gaps() []Gap {
	return []Gap{
		{"more than 16 tolerations", []string{"request-tolerations-max"}, ""},
		{"a toleration without a key that becomes Equal", []string{"toleration-empty-key"}, ""},
		{"tolerations for every taint, for reserved keys, for ever", nil, "policies, since it depends on who asks: DRA-TOL-001 and those beside it"},
		{"tolerationSeconds that are negative or ignored", []string{"toleration-seconds"}, ""},
		{"tolerations in an allocation that no request has", []string{"allocation-tolerations"}, ""},
		{"an allocation without the finalizer", []string{"allocation-finalizer", "claim-finalizer"}, ""},
		{"the time of a taint begins anew with every apply", []string{"taint-time-keep", "taint-time-set"}, ""},
		{"another effect with the time of the old one", []string{"taint-time-renew"}, ""},
		{"a taint of the future", []string{"taint-time-future"}, ""},
		{"two taints with one key and effect", []string{"taint-duplicate"}, ""},
		{"a DeviceTaintRule for everything, or without a driver", []string{"taint-rule-everything", "taint-rule-driver", "taint-rule-acknowledgement"}, ""},
		{"fields that are dropped while a feature gate is off", []string{"field-dropped"}, "in a cluster the mutating webhook warns, the only one to see them"},
		{"what only newer API servers take", []string{"device-taints-max", "slice-devices-max", "taint-effect", "slice-content"}, "lint --kubernetes-version"},
		{"a step on which an API server crashes", []string{"capacity-step"}, "in a cluster the mutating webhook refuses it"},
		{"counters that are not there, or negative", []string{"pool-counter-reference", "counter-negative"}, ""},
		{"slices of a pool that contradict each other", []string{"pool-device-unique", "pool-counter-set-unique", "pool-slice-count", "pool-generation"}, ""},
		{"a node selector of a device with several terms", []string{"device-node-selector-terms"}, ""},
		{"names that nothing can match, or that stand twice", []string{"attribute-name-slashes", "constraint-attribute-slashes", "attribute-ambiguous"}, ""},
		{"more devices than an allocation holds", []string{"claim-devices-max"}, ""},
		{"capacities that no device can have", []string{"request-capacity"}, ""},
		{"matchAttribute and distinctAttribute in one constraint", []string{"constraint-one-attribute"}, ""},
		{"a class that does not exist, or selects everything", []string{"class-exists", "class-everything"}, ""},
		{"a selector that fails on devices, or matches none", []string{"selector-devices", "selector-constant"}, ""},
		{"two classes for one extended resource", []string{"class-extended-resource-unique"}, ""},
		{"opaque parameters that the driver does not know", []string{"parameters-value", "parameters-field", "parameters-kind", "parameters-driver"}, ""},
		{"slices for another node, or of another driver", []string{"slice-node-author", "slice-driver-author"}, ""},
		{"an allocation of more devices than asked for, of one twice, of one that does not exist or that another claim holds", []string{"allocation-devices", "allocation-world"}, ""},
		{"a claim that asks for nothing", []string{"claim-empty"}, "a slice with nothing in it is how a driver says that it has no devices"},
		{"a pod deleted by force while its containers use its devices", []string{"pod-force-deletion"}, "off by default: forceDeletion.enabled in the chart"},
		{"claims from templates, which a controller writes", nil, "every rule for a claim is one for its template, where the author is known"},
		{"claims that the scheduler writes for extended resources", nil, "systemUsers in the configuration are never denied"},
	}
}

// gapsMarkdown is the table of the gaps.
func gapsMarkdown() string {
	var b strings.Builder
	b.WriteString(`
## What no API server says

The gaps that are known, and what is done about each.

| | what is accepted | what says so |
| --- | --- | --- |
`)
	for i, gap := range Gaps() {
		var says []string
		for _, id := range gap.IDs {
			says = append(says, fmt.Sprintf("[%s](#%[1]s)", id))
		}
		said := strings.Join(says, ", ")
		if gap.How != "" {
			said = strings.TrimPrefix(said+"; "+gap.How, "; ")
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", i+1, gap.What, said)
	}
	return b.String()
}
