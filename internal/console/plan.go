package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// errForm is about a form that asks for what there is not.
var errForm = errors.New("this change is not possible")

// A plan is what a change does now.
type plan struct {
	// Title is the change, Command the line that does the same.
	Title, Command string
	Sections       []preview
	// Warnings are those of the API server and about known faults, Refused is why the change is not
	// accepted, with what helps.
	Warnings []string
	Refused  string
	// Ceiling is an acknowledgement that covers the impact; empty if none is asked for.
	Ceiling string
	// Nothing is why there is nothing to do.
	Nothing string
	// Target is the page of what is changed, Written that of what is written, if it has one.
	Target, Written link
	// Counts are what is affected now, Object is the version of the object that is changed.
	Counts guard.Counts
	Object string

	write func(ctx context.Context) (result string, _ error)
}

// CanConfirm reports whether there is something to do that is not refused.
func (p *plan) CanConfirm() bool { return p.Refused == "" && p.Nothing == "" }

// A planner plans one kind of change.
type planner struct {
	*Server
	in      fleet.Input
	objects taints.Objects
	form    url.Values
	// unknown is why the impact is not known.
	unknown string
}

// plan is what a form asks for.
func (s *Server) plan(ctx context.Context, now *shown, form url.Values) (*plan, error) {
	in, err := s.withPods(ctx, now)
	if err != nil {
		return nil, err
	}
	if in.View == nil {
		return nil, fmt.Errorf("%w: no ResourceSlices are known", errForm)
	}
	p := planner{Server: s, in: in, objects: objectsOf(in), form: form}
	if in.NoPods {
		p.unknown = "unknown: you are not allowed to list the pods of all namespaces"
	} else if in.Partial {
		p.unknown = "partial view: claims that you are not allowed to read are not counted"
	}
	switch verb := form.Get("verb"); verb {
	case "taint":
		return p.taint(ctx)
	case "untaint":
		return p.untaint(ctx)
	case "drain":
		return p.drain(ctx)
	case "pause", "continue":
		return p.pause(ctx, verb == "pause")
	case "cancel":
		return p.cancel(ctx)
	default:
		return nil, fmt.Errorf("%w: %q is not taint, untaint, drain, pause, continue or cancel", errForm, plain(verb))
	}
}

// text is a field without spaces around it.
func (p planner) text(name string) string { return strings.TrimSpace(p.form.Get(name)) }

// given is a field, nil if it is empty.
func (p planner) given(name string) *string {
	if text := p.text(name); text != "" {
		return &text
	}
	return nil
}

// words are a command and its flags with a value.
func (p planner) words(words []string, flags ...string) string {
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i+1] != "" {
			words = append(words, flags[i], flags[i+1])
		}
	}
	return p.command(words...)
}

// targets are what the field target names.
func (p planner) targets() ([]taints.Target, error) {
	name := p.text("target")
	kind, rest, _ := strings.Cut(name, "/")
	if kind = taints.Kinds()[kind]; rest != "" && (kind == "claim" || kind == "pod") {
		return nil, fmt.Errorf("%w: %q: name a device, a pool, a driver or node/NAME; for a claim or a pod, open its device", errForm, plain(name))
	}
	found, err := p.scope().Resolve(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	return found, nil
}

func (p planner) scope() taints.Scope {
	return taints.Scope{View: p.in.View, Index: p.objects.Index(), Names: func(yield func(usage.DeviceID) bool) {
		for d := range p.in.View.Devices() {
			if !yield(usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}) {
				return
			}
		}
	}}
}

// pageOf is the page of a target, that of a device if it is one.
func (p planner) pageOf(t taints.Target) link {
	if t.Device != "" {
		return p.live.links.device(usage.DeviceID(t))
	}
	return link{p.live.links.to("taints"), "taints"}
}

// landing is what whatif answers for a change, in bounded time.
func (p planner) landing(ctx context.Context, command string, change func(placement.Cluster) placement.Change) preview {
	w := preview{Title: "Where its pods land", Command: command, Error: p.unknown}
	if p.in.NoPods {
		return w
	}
	ctx, cancel := context.WithTimeout(ctx, predictTime)
	defer cancel()
	cluster := placementOf(p.in)
	answer, err := cluster.Predict(ctx, change(cluster))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		w.Error = tooLong()
	case err != nil:
		w.Error = err.Error()
	default:
		w.Error, w.Lines = "", p.noted(landings(answer))
	}
	return w
}

// noted adds that what is known is partial.
func (p planner) noted(lines []string) []string {
	if p.unknown != "" {
		lines = append(lines, p.unknown)
	}
	return lines
}

// others are the other sources of a taint on a target, and the drains of its devices.
func (p planner) others(target taints.Target, key string, ours string) (lines []string) {
	for rule := range p.in.View.Rules() {
		if rule.Name == ours || rule.Spec.Taint.Key != key || rule.Spec.DeviceSelector == nil || !overlap(rule.Spec.DeviceSelector, target) {
			continue
		}
		lines = append(lines, fmt.Sprintf("DeviceTaintRule %s has the same key for %s", rule.Name, selectorText(rule.Spec.DeviceSelector)))
	}
	for _, d := range p.in.Drains {
		if fleet.Ended(d) {
			continue
		}
		for id := range fleet.DevicesOf(d) {
			if target.Has(id) {
				lines = append(lines, fmt.Sprintf("drain %s is about %s", d.Name, id))
				break
			}
		}
	}
	slices.Sort(lines)
	return firstLines(lines)
}

// try notes what the API server says about a dry run.
func (pl *plan) try(warnings []string, err error) {
	pl.Warnings = append(pl.Warnings, warnings...)
	if err != nil {
		pl.Refused = cmp.Or(pl.Refused, errorText(err))
	}
}

// errorText is what the API server says, with a remedy if the user has not the right.
func errorText(err error) string {
	text := err.Error()
	if apierrors.IsForbidden(err) && strings.Contains(text, " cannot ") {
		text += ". Ask an administrator for the ClusterRole of people on call (rbac.oncall of the chart), or for this right alone."
	}
	return text
}
