package device

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

func ruleFormats() []string { return []string{"text", "wide", "name"} }

// listRules shows all DeviceTaintRules, with who wrote them and why.
func (o taintOptions) listRules(ctx context.Context, streams cmdutil.Streams) error {
	if err := cmdutil.CheckOutput(o.output, ruleFormats()...); err != nil {
		return err
	}
	rules, err := o.read.Rules(ctx, streams)
	if err != nil {
		return err
	}
	if slices.Contains(ruleFormats(), o.output) {
		return o.writeRules(streams, rules)
	}
	list := &resourceapi.DeviceTaintRuleList{Items: []resourceapi.DeviceTaintRule{}}
	list.APIVersion, list.Kind = resourceapi.SchemeGroupVersion.String(), "DeviceTaintRuleList"
	for _, rule := range rules {
		item := *rule
		item.APIVersion, item.Kind = resourceapi.SchemeGroupVersion.String(), "DeviceTaintRule"
		list.Items = append(list.Items, item)
	}
	return cmdutil.PrintTable(streams.Out, o.output, list, !o.noHeaders)
}

func (o taintOptions) writeRules(streams cmdutil.Streams, rules []*resourceapi.DeviceTaintRule) error {
	out := streams.Out
	if o.output == "name" {
		for _, rule := range rules {
			printable.Printf(out, "devicetaintrule.%s/%s\n", resourceapi.GroupName, rule.Name)
		}
		return nil
	}
	if len(rules) == 0 && !o.noHeaders {
		_, err := printable.Printf(out, "%s\n", streams.Called("there are no DeviceTaintRules; dra-steward devices shows the taints of drivers"))
		return err
	}
	w := printable.NewTable(out, 2)
	if !o.noHeaders {
		printable.Printf(w, "NAME\tTAINT\tDEVICES\tOWNER\tREASON\tTICKET\tCREATED\tEXPIRES\n")
	}
	for _, rule := range rules {
		created := "unknown"
		if !rule.CreationTimestamp.IsZero() {
			created = rule.CreationTimestamp.UTC().Format(time.RFC3339)
		}
		row := []string{rule.Name, toleration.TaintText(rule.Spec.Taint), selected(rule.Spec.DeviceSelector),
			note(rule, v1alpha1.OwnerAnnotation), note(rule, v1alpha1.ReasonAnnotation), note(rule, v1alpha1.TicketAnnotation), created, expires(rule)}
		printable.Printf(w, "%s\n", printable.Cells(row))
	}
	return w.Flush()
}

// note is an annotation as a cell of a table.
func note(rule *resourceapi.DeviceTaintRule, annotation string) string {
	return cmp.Or(strings.Join(strings.Fields(rule.Annotations[annotation]), " "), "-")
}

// expires is when a rule ends, as a cell of a table.
func expires(rule *resourceapi.DeviceTaintRule) string {
	at, has, err := taints.Expiry(rule)
	switch {
	case err != nil:
		return "not a time"
	case !has:
		return "never"
	}
	return at.UTC().Format(time.RFC3339)
}

// selected is what a rule selects, as a cell of a table.
func selected(s *resourceapi.DeviceTaintSelector) string {
	switch {
	case s == nil:
		return "none"
	case s.Driver == nil && s.Pool == nil && s.Device == nil:
		return "all"
	case s.Driver != nil && (s.Pool != nil || s.Device == nil):
		return taints.Target{Driver: *s.Driver, Pool: ptr.Deref(s.Pool, ""), Device: ptr.Deref(s.Device, "")}.String()
	}
	star := func(part *string) string { return ptr.Deref(part, "*") }
	return star(s.Driver) + "/" + star(s.Pool) + "/" + star(s.Device)
}
