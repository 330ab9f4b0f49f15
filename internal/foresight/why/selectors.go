package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

func nearest(name string, names []string) string { return manifest.Nearest(name, names) }

// expression asks one expression of a device.
func (q *question) expression(ctx context.Context, expression string, p place) (ok, failed bool, message string) {
	return q.selects(ctx, []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}, p.slice.Spec.Driver, p.device)
}

// failing are the selectors that fail on a device: kube-scheduler stops at the first.
func (q *question) failing(ctx context.Context, r asked, request *Request) (all []hypothesis) {
	if broken := q.places(request, func(d Device) bool { return d.Reason == ClassSelectorError }); len(broken) > 0 {
		all = append(all, q.failingClass(ctx, r, broken))
	}
	broken := q.places(request, func(d Device) bool { return d.Reason == RequestSelectorError })
	if len(broken) == 0 {
		return all
	}
	h := hypothesis{cause: Cause{Kind: SelectorError, Devices: len(broken)}, change: func(*question) {}}
	i, guarded, message := q.withPresenceCheck(ctx, r.selectors, broken)
	h.cause.Message, h.cause.Remedy = q.failure(ctx, fmt.Sprintf("selector %d of request %s", i, r.name), r.selectors[i], broken, message)
	if guarded != "" && q.origin.resource != podResource {
		h.cause.Remedy = "check that the device has the attribute"
		h.cause.Command = q.editSelector(r, i, guarded)
		h.change = func(q *question) { q.reselect(r, i, guarded) }
	}
	return append(all, h)
}

func (q *question) failingClass(ctx context.Context, r asked, broken []place) hypothesis {
	h := hypothesis{cause: Cause{Kind: SelectorError, Devices: len(broken)}, change: func(*question) {}}
	selectors := q.cluster.View.Class(r.class).Spec.Selectors
	i, guarded, message := q.withPresenceCheck(ctx, selectors, broken)
	h.cause.Message, h.cause.Remedy = q.failure(ctx, fmt.Sprintf("selector %d of DeviceClass %s", i, r.class), selectors[i], broken, message)
	h.cause.Command = editClass(r.class)
	if guarded != "" {
		h.cause.Remedy = "check that the device has the attribute"
		h.cause.Command = "kubectl patch deviceclass " + word(r.class) + " --type=json -p " + quote(marshal([]operation{{"replace", pointer("spec", "selectors", i, "cel", "expression"), guarded}}))
	}
	return h
}

// failure describes how a selector fails on a device, and the remedy. What is not evaluated to the end is not known to fail.
func (q *question) failure(ctx context.Context, what string, s resourceapi.DeviceSelector, broken []place, message string) (text, remedy string) {
	unknown := false
	if s.CEL != nil {
		compiled := q.cache.GetOrCompile(s.CEL.Expression)
		unknown = selector.TooExpensive(compiled)
		if compiled.Error == nil {
			_, _, err := compiled.DeviceMatches(ctx, placement.DeviceOf(broken[0].slice.Spec.Driver, broken[0].device))
			unknown = errors.Is(err, selector.ErrTooExpensive)
		}
	}
	if unknown {
		return fmt.Sprintf("%s takes too long to be evaluated here on %s: whether kube-scheduler evaluates it is not known: %s", what, broken[0], message), "simplify the expression"
	}
	return fmt.Sprintf("%s fails on %s, and kube-scheduler stops: %s", what, broken[0], message), "correct the expression" + q.knownAttributes(broken)
}

// withPresenceCheck returns the place of the first selector that fails, its error, and the same
// expression with a check of the attribute before the term that fails; empty if that does
// not help.
func (q *question) withPresenceCheck(ctx context.Context, selectors []resourceapi.DeviceSelector, broken []place) (at int, guarded, message string) {
	for i, s := range selectors {
		if s.CEL == nil {
			continue
		}
		_, failed, message := q.expression(ctx, s.CEL.Expression, broken[0])
		if !failed {
			continue
		}
		if _, cause, found := strings.Cut(message, s.CEL.Expression+": "); found {
			message = cause
		}
		all := terms(s.CEL.Expression)
		guarded := s.CEL.Expression
		for j, t := range all {
			if t.name == "" {
				continue
			}
			if _, fails, _ := q.expression(ctx, t.text, broken[0]); fails {
				guarded = with(all, j, t.present()+" && "+t.text)
			}
		}
		for _, p := range broken {
			if _, fails, _ := q.expression(ctx, guarded, p); fails {
				return i, "", message
			}
		}
		return i, guarded, message
	}
	return 0, "", ""
}

// knownAttributes lists what the driver of a device publishes.
func (q *question) knownAttributes(broken []place) string {
	var names []string
	for name := range broken[0].device.Attributes {
		names = append(names, string(name))
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": the device has " + list(names, 5)
}

// editSelector returns the command for another expression of a selector.
func (q *question) editSelector(r asked, i int, expression string) string {
	return q.origin.edit(operation{"replace", r.path + pointer("selectors", i, "cel", "expression"), expression})
}

func (q *question) reselect(r asked, i int, expression string) {
	q.claim = q.claim.DeepCopy()
	_, selectors, _ := r.in(q.claim)
	(*selectors)[i].CEL.Expression = expression
}

// unselected are other selectors, for a request that selects no device.
func (q *question) unselected(ctx context.Context, r asked, request *Request) (all []hypothesis) {
	inClass := q.places(request, func(d Device) bool { return d.Reason == RequestSelector })
	if request.Matching > 0 || len(inClass) == 0 || q.origin.resource == podResource {
		return nil
	}
	for i, s := range r.selectors {
		if s.CEL == nil {
			continue
		}
		parts := terms(s.CEL.Expression)
		for j, t := range parts {
			if q.anySelected(ctx, t.text, inClass) {
				continue
			}
			all = append(all, q.otherwise(r, request, i, parts, j, inClass)...)
		}
		if len(all) == 0 && !q.anySelected(ctx, s.CEL.Expression, inClass) {
			for j := range parts {
				all = append(all, q.without(r, i, parts, j, inClass, fmt.Sprintf("no device satisfies all conditions of selector %d of request %s", i, r.name)))
			}
		}
	}
	return all
}

func (q *question) anySelected(ctx context.Context, expression string, places []place) bool {
	return slices.ContainsFunc(places, func(p place) bool {
		ok, _, _ := q.expression(ctx, expression, p)
		return ok
	})
}

// otherwise are the hypotheses about one term that is false for every device: another
// value, or no condition.
func (q *question) otherwise(r asked, request *Request, i int, parts []term, j int, inClass []place) (all []hypothesis) {
	t := parts[j]
	values := map[string]int{}
	for _, p := range inClass {
		if value, ok := t.value(p.slice.Spec.Driver, p.device); ok {
			values[value]++
		} else {
			values["missing"]++
		}
	}
	var shown, offered []string
	for _, value := range sorted(values) {
		shown = append(shown, fmt.Sprintf("%s×%d", cmp.Or(value, `""`), values[value]))
		if value != "missing" {
			offered = append(offered, value)
		}
	}
	message := fmt.Sprintf("%s is %s: the selector asks for %s", t.name, list(shown, 5), t.literal)
	switch {
	case t.name == "":
		message = fmt.Sprintf("no device satisfies selector %d of request %s: %s", i, r.name, t.text)
	case t.left == "":
		message = fmt.Sprintf("%s is %s: the selector asks for %s", t.name, list(shown, 5), t.text)
	}
	if t.left != "" {
		for _, value := range offered[:min(len(offered), tries/2)] {
			h := q.without(r, i, parts, j, inClass, message)
			expression := with(parts, j, fmt.Sprintf("%s == %q", t.left, value))
			h.change = func(q *question) { q.reselect(r, i, expression) }
			h.cause.Remedy = "request " + value
			h.cause.Command = q.editSelector(r, i, expression)
			all = append(all, h)
		}
	}
	removed := q.without(r, i, parts, j, inClass, message)
	if n := values["missing"]; t.left != "" && n == len(inClass) {
		removed.cause.Remedy += fmt.Sprintf(" (or publish %s: a ResourceSlicePatch would make %s suitable)", t.name, plural.Of(n, "device"))
	}
	return append(all, removed)
}

// without is the hypothesis that a term is left out.
func (q *question) without(r asked, i int, parts []term, j int, inClass []place, message string) hypothesis {
	expression := with(parts, j, "")
	return hypothesis{
		cause: Cause{
			Kind: SelectorFalse, Devices: len(inClass), Message: message, Remedy: "remove that condition",
			Command: q.editSelector(r, i, expression),
		},
		change: func(q *question) { q.reselect(r, i, expression) },
	}
}
