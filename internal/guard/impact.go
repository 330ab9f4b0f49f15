package guard

import (
	"fmt"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// An Impact is what a taint or drain affects now, as policies and messages have it.
type Impact struct {
	Counts
	// Everything is true if it selects every device of the cluster.
	Everything bool
	// Acknowledged is what the object acknowledges; nil is nothing.
	Acknowledged *Ceiling
	// PodNames are the first of the pods, "namespace/name", NamespaceNames all of their
	// namespaces, both in their order.
	PodNames, NamespaceNames []string
	// Budgets are the PodDisruptionBudgets that speak of one of the pods.
	Budgets []Budget
	// Siblings are the published devices that share counters with selected ones and are not
	// selected, such as other partitions of the same GPU.
	Siblings []string
	// Stranded are the pods that do not land again, nil if that is not asked.
	Stranded *Stranded
	// Sum is what it affects together with the evictions of the window, nil unless that is
	// too large.
	Sum *Sum
}

// A Budget is a PodDisruptionBudget that is hit.
type Budget struct {
	Namespace, Name string
	// Pods are how many of the affected pods it covers, Allowed how many can be evicted now.
	Pods, Allowed int
}

// Names that a message gives of each list: enough to recognise the affected pods.
const someNames = 3

// String says in one line what is affected.
func (i Impact) String() string {
	if len(i.Siblings) == 0 {
		return i.affects()
	}
	return fmt.Sprintf("%s; %s that share counters with the selected ones can still be allocated: %s", i.affects(), plural.Of(len(i.Siblings), "device"), plural.List(i.Siblings, someNames, len(i.Siblings)))
}

func (i Impact) affects() string {
	if i.Claims == 0 {
		return "affects no pods: no claim holds these devices"
	}
	text := fmt.Sprintf("affects %s and %s", plural.Of(i.Devices, "allocated device"), plural.Of(i.Claims, "claim"))
	if i.Pods == 0 {
		return text + "; no running pod uses them"
	}
	text += fmt.Sprintf(", %s in %s (%s): %s", plural.Of(i.Pods, "pod"), plural.Of(i.Namespaces, "namespace"), plural.List(i.NamespaceNames, someNames, i.Namespaces), plural.List(i.PodNames, someNames, i.Pods)) + i.Stranded.Of(i.Pods)
	if len(i.Budgets) == 0 {
		return text
	}
	var budgets []string
	for _, b := range i.Budgets {
		budgets = append(budgets, fmt.Sprintf("%s/%s (%s, %d can be evicted now)", b.Namespace, b.Name, plural.Of(b.Pods, "pod"), b.Allowed))
	}
	return text + fmt.Sprintf("; and %s: %s", plural.Of(len(budgets), "PodDisruptionBudget"), plural.List(budgets, someNames, len(budgets)))
}

// Acknowledge is the lowest ceiling that lets the impact pass.
func (i Impact) Acknowledge() Ceiling {
	c := CeilingOf(i.Counts)
	if i.Stranded.Known() && i.Stranded.Limited {
		c.Stranded = &i.Stranded.Pods
	}
	return c
}

// A Stranded is how many of the affected pods do not land again once they are evicted.
type Stranded struct {
	// Pods is their number, Names are the first of them with the reason of each, as in
	// "team-a/train-0 (constraint numaNode)".
	Pods  int
	Names []string
	// NotComputed says why that is not known; empty if it is.
	NotComputed string
	// Limited is true if the site has a threshold for it.
	Limited bool
}

// Known reports whether the number is known.
func (s *Stranded) Known() bool { return s != nil && s.NotComputed == "" }

// Of says in one line how many of so many pods that are; empty for nil.
func (s *Stranded) Of(pods int) string {
	switch {
	case s == nil || pods == 0:
		return ""
	case s.NotComputed != "":
		return "; it is unknown whether they land again: " + s.NotComputed
	case s.Pods == 0 && pods == 1:
		return "; it lands again"
	case s.Pods == 0:
		return "; all of them land again"
	case s.Pods == 1:
		return "; 1 pod does not land again: " + plural.List(s.Names, someNames, s.Pods)
	}
	return fmt.Sprintf("; %s do not land again: %s", plural.Of(s.Pods, "pod"), plural.List(s.Names, someNames, s.Pods))
}
