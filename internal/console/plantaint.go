package console

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// taint plans a taint of one target.
func (p planner) taint(ctx context.Context) (*plan, error) {
	found, err := p.targets()
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%w: %q means %d targets: taint one after the other, or run the command", errForm, plain(p.text("target")), len(found))
	}
	target := found[0]
	taint, asked, err := p.taintAsked()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	name := taints.Name(target, taint.Key)
	pl := &plan{Title: "Taint " + target.String() + " with " + toleration.TaintText(taint), Target: p.pageOf(target)}
	pl.Command = p.words([]string{"taint", target.String(), toleration.TaintText(taint)}, "--for", p.text("for"), "--owner", p.text("owner"), "--reason", p.text("reason"), "--ticket", p.text("ticket"), "--acknowledge", asked.Acknowledged)
	stored, err := p.options.Writer.Rule(ctx, name)
	if err != nil {
		pl.try(nil, err)
		return pl, nil
	}
	user := ""
	if asked.Owner == nil {
		if user, err = p.options.Writer.User(ctx); err != nil {
			pl.Warnings = append(pl.Warnings, "your user name is not known: set an owner: "+err.Error())
		}
	}
	intent := asked.Intent(target, taint, stored, user, p.options.Now())
	pl.Object = versionOf(stored)
	pl.Sections = append(pl.Sections, p.rule(intent, stored))
	p.addImpact(ctx, pl, target, taint)
	if !p.addFaults(ctx, pl) {
		return pl, nil
	}
	_, warnings, err := p.options.Writer.ApplyRule(ctx, intent, stored, true)
	pl.try(warnings, err)
	pl.write = func(ctx context.Context) (string, error) {
		did, _, err := p.options.Writer.ApplyRule(ctx, intent, stored, false)
		return fmt.Sprintf("devicetaintrule/%s %s: %s %s", name, did, target, toleration.TaintText(taint)), err
	}
	return pl, nil
}

// taintAsked is what the fields of a form ask for.
func (p planner) taintAsked() (resourceapi.DeviceTaint, clusterwrite.Taint, error) {
	text := p.text("key")
	if value := p.text("value"); value != "" {
		text += "=" + value
	}
	asked := clusterwrite.Taint{Acknowledged: p.text("acknowledge"), Owner: p.given("owner"), Reason: p.given("reason"), Ticket: p.given("ticket")}
	taint, err := taints.ParseTaint(text+":"+p.text("effect"), false)
	if err != nil {
		return taint, asked, err
	}
	if lasts := p.text("for"); lasts != "" {
		d, err := cmdutil.ParseDuration(lasts)
		if err != nil {
			return taint, asked, fmt.Errorf("--for %w", err)
		}
		asked.Expires = &d
	}
	return taint, asked, asked.Check()
}

// versionOf tells objects from what they were.
func versionOf(stored *resourceapi.DeviceTaintRule) string {
	if stored == nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", stored.UID, stored.Generation)
}

// rule is what is written.
func (p planner) rule(intent taints.Intent, stored *resourceapi.DeviceTaintRule) preview {
	name := taints.Name(intent.Target, intent.Taint.Key)
	w := preview{Title: "DeviceTaintRule"}
	if stored == nil {
		w.Lines = append(w.Lines, "creates "+name)
	} else {
		w.Lines = append(w.Lines, "changes "+name+", now "+toleration.TaintText(stored.Spec.Taint))
	}
	w.Lines = append(w.Lines, "taint "+toleration.TaintText(intent.Taint))
	if intent.Expires.IsZero() {
		w.Lines = append(w.Lines, "no end")
	} else {
		w.Lines = append(w.Lines, "until "+stamp(intent.Expires)+" (needs the controller of dra-steward)")
	}
	for _, note := range []pair{{"owner", intent.Owner}, {"reason", intent.Reason}, {"ticket", intent.Ticket}} {
		if note.Value != "" {
			w.Lines = append(w.Lines, note.Name+": "+note.Value)
		}
	}
	w.Lines = append(w.Lines, p.others(intent.Target, intent.Taint.Key, name)...)
	return w
}

// addImpact adds what a taint affects.
func (p planner) addImpact(ctx context.Context, pl *plan, target taints.Target, taint resourceapi.DeviceTaint) {
	w := preview{Title: "Impact", Command: p.command("impact", target.String(), toleration.TaintText(taint))}
	evicts := taint.Effect == resourceapi.DeviceTaintEffectNoExecute
	switch {
	case p.in.NoPods:
		w.Error = p.unknown
	case !evicts:
		w.Lines = []string{"evicts no pods"}
		if taint.Effect == resourceapi.DeviceTaintEffectNoSchedule {
			w.Lines = append(w.Lines, "new claims do not get the devices, unless they tolerate the taint")
		}
	default:
		report := taints.NewPodImpact(p.objects, target.Selector(), taint, p.options.Now())
		w.Lines, pl.Counts = p.noted(reportLines(report)), report.Counts
		if report.Counts.Pods > 0 {
			pl.Ceiling = guard.CeilingOf(report.Counts).String()
		}
	}
	if siblings := p.scope().Siblings([]taints.Target{target}); len(siblings) > 0 {
		w.Lines = append(w.Lines, siblingsText(len(siblings), siblings[0].String()))
	}
	pl.Sections = append(pl.Sections, w)
	if evicts {
		pl.Sections = append(pl.Sections, p.landing(ctx, p.command("whatif", "taint", target.String(), toleration.TaintText(taint)), func(cluster placement.Cluster) placement.Change {
			rule := taints.Intent{Target: target, Taint: taint}.Rule()
			return cluster.With(rule)
		}))
	}
}

// addFaults adds the known faults of the cluster, and reports whether they let a taint be written.
func (p planner) addFaults(ctx context.Context, pl *plan) bool {
	warnings, err := p.options.Writer.Faults(ctx)
	pl.try(warnings, err)
	return err == nil
}

// untaint plans to delete a rule that "dra-steward taint" has written.
func (p planner) untaint(ctx context.Context) (*plan, error) {
	name := p.text("rule")
	pl := &plan{Title: "Untaint", Target: link{p.live.links.to("taints"), "taints"}}
	stored, err := p.options.Writer.Rule(ctx, name)
	switch {
	case err != nil:
		pl.try(nil, err)
		return pl, nil
	case stored == nil:
		pl.Nothing = fmt.Sprintf("DeviceTaintRule %s does not exist.", name)
		return pl, nil
	case !untaints(stored):
		return nil, fmt.Errorf("%w: DeviceTaintRule %s is not one that \"dra-steward taint\" has written: kubectl delete devicetaintrule %s, if it is not needed", errForm, plain(name), plain(name))
	}
	target := targetOf(stored.Spec.DeviceSelector)
	pl.Title, pl.Target, pl.Object = "Remove the taint "+toleration.TaintText(stored.Spec.Taint)+" of "+target.String(), p.pageOf(target), versionOf(stored)
	pl.Command = p.command("untaint", target.String(), stored.Spec.Taint.Key)
	w := preview{Title: "DeviceTaintRule", Lines: []string{"deletes " + name, "taint " + toleration.TaintText(stored.Spec.Taint)}}
	for _, left := range taints.Others(p.in.View.Devices(), target, resourceapi.DeviceTaint{Key: stored.Spec.Taint.Key}, name) {
		w.Lines = append(w.Lines, "still tainted: "+left.Error())
	}
	w.Lines = firstLines(append(w.Lines, p.others(target, stored.Spec.Taint.Key, name)...))
	pl.Sections = []preview{w}
	pl.try(p.options.Writer.DeleteRule(ctx, stored, true))
	pl.write = func(ctx context.Context) (string, error) {
		_, err := p.options.Writer.DeleteRule(ctx, stored, false)
		return fmt.Sprintf("devicetaintrule/%s deleted: %s %s", name, target, toleration.TaintText(stored.Spec.Taint)), err
	}
	return pl, nil
}

// untaints reports whether "dra-steward untaint" deletes a rule.
func untaints(rule *resourceapi.DeviceTaintRule) bool {
	target := targetOf(rule.Spec.DeviceSelector)
	return clusterwrite.Ours(rule) && target.Driver != "" && rule.Name == taints.Name(target, rule.Spec.Taint.Key)
}

func targetOf(s *resourceapi.DeviceTaintSelector) taints.Target {
	if s == nil {
		return taints.Target{}
	}
	return taints.Target{Driver: ptr.Deref(s.Driver, ""), Pool: ptr.Deref(s.Pool, ""), Device: ptr.Deref(s.Device, "")}
}

// overlap reports whether a selector and a target can have a device in common.
func overlap(s *resourceapi.DeviceTaintSelector, t taints.Target) bool {
	both := func(selected *string, part string) bool { return selected == nil || part == "" || *selected == part }
	return both(s.Driver, t.Driver) && both(s.Pool, t.Pool) && both(s.Device, t.Device)
}

// effects are those of the form of a taint.
func effects() []string { return []string{"NoSchedule", "NoExecute", "None"} }
