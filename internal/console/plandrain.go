package console

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// drain plans a drain of the devices of a target.
func (p planner) drain(ctx context.Context) (*plan, error) {
	found, err := p.targets()
	if err != nil {
		return nil, err
	}
	wanted, flags, err := p.drainAsked(found)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	pl := &plan{Title: "Drain " + p.text("target"), Target: p.pageOf(found[0]), Written: p.live.links.drain(wanted.Name), Command: p.command(append([]string{"drain", p.text("target")}, flags...)...)}
	stored, err := p.options.Writer.Drain(ctx, wanted.Name)
	switch {
	case err != nil:
		pl.try(nil, clusterwrite.DrainError(err))
		return pl, nil
	case stored != nil && equality.Semantic.DeepEqual(stored.Spec.Devices, wanted.Spec.Devices):
		pl.Nothing = fmt.Sprintf("DeviceDrain %s already exists for these devices: %s.", stored.Name, clusterwrite.Progress(stored))
		return pl, nil
	case stored != nil:
		return nil, fmt.Errorf("%w: DeviceDrain %s already exists for other devices: run the command with another --name", errForm, wanted.Name)
	}
	p.addDrain(ctx, pl, wanted)
	if !p.addFaults(ctx, pl) {
		return pl, nil
	}
	warnings, err := p.options.Writer.CreateDrain(ctx, wanted, true)
	pl.try(warnings, clusterwrite.DrainError(err))
	pl.write = func(ctx context.Context) (string, error) {
		_, err := p.options.Writer.CreateDrain(ctx, wanted, false)
		if apierrors.IsAlreadyExists(err) {
			return fmt.Sprintf("devicedrain %s already exists", wanted.Name), nil
		}
		return fmt.Sprintf("devicedrain %s created", wanted.Name), err
	}
	return pl, nil
}

// drainAsked is the drain that the fields of a form ask for, and the flags of the command.
func (p planner) drainAsked(found []taints.Target) (_ *v1alpha1.DeviceDrain, flags []string, _ error) {
	asked := clusterwrite.Drain{Rate: v1alpha1.DrainRate, Acknowledged: p.text("acknowledge"), Action: string(v1alpha1.DeadlineKeep)}
	flag := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	if text := p.text("rate"); text != "" {
		rate, err := strconv.ParseInt(text, 10, 32)
		if err != nil || rate < 1 {
			return nil, nil, fmt.Errorf("--rate %q: must be a number of evictions per minute, from 1 to %d", plain(text), v1alpha1.DrainRateMax)
		}
		asked.Rate = int32(rate)
		flag("rate", text)
	}
	if text := p.text("deadline"); text != "" {
		d, err := cmdutil.ParseDuration(text)
		if err != nil {
			return nil, nil, fmt.Errorf("--deadline %w", err)
		}
		asked.Deadline = d
		if action := p.text("action"); action != "" {
			asked.Action = action
		}
		flag("deadline", text)
		flag("deadline-action", asked.Action)
	}
	for line := range strings.SplitSeq(p.text("windows"), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			asked.Windows = append(asked.Windows, line)
			flag("window", line)
		}
	}
	for _, one := range []struct {
		field, flag string
		into        *bool
	}{{"partitions", "with-partitions", &asked.WithPartitions}, {"bare", "evict-pods-without-controller", &asked.EvictBare}, {"uncordon", "uncordon", &asked.Uncordon}} {
		if *one.into = p.text(one.field) != ""; *one.into {
			flags = append(flags, "--"+one.flag)
		}
	}
	flag("acknowledge", asked.Acknowledged)
	d := &v1alpha1.DeviceDrain{}
	for _, id := range p.scope().Devices(found) {
		d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName(id))
	}
	d.Name = clusterwrite.DrainName(d.Spec)
	return d, flags, asked.Set(d, func(string) bool { return true })
}

// addDrain adds what a drain does.
func (p planner) addDrain(ctx context.Context, pl *plan, d *v1alpha1.DeviceDrain) {
	w := preview{Title: "DeviceDrain " + d.Name, Error: p.unknown}
	if !p.in.NoPods {
		input, decision := decided(p.in, p.objects, d, p.options.Now)
		n := decision.Status.Counts
		pl.Counts = guard.Counts{Devices: input.HeldDevices, DriverDevices: input.DriverDevices, Claims: int(n.Claims), Pods: int(n.Remaining), Namespaces: int(n.Namespaces)}
		w.Error, w.Lines = "", p.noted(decidedLines(input, decision))
		if over := p.in.Thresholds.Exceeded(pl.Counts, nil); len(over) > 0 {
			w.Lines = append(w.Lines, "thresholds: "+p.in.Thresholds.From)
			pl.Ceiling = guard.CeilingOf(pl.Counts).String()
		}
	}
	w.Lines = append(w.Lines, p.otherDrains(d)...)
	pl.Sections = append(pl.Sections, w)
	var found []taints.Target
	for _, name := range d.Spec.Devices {
		found = append(found, taints.Target(name))
	}
	if len(found) > 0 && p.text("target") != "" {
		pl.Sections = append(pl.Sections, p.landing(ctx, p.command("whatif", "drain", p.text("target")), func(cluster placement.Cluster) placement.Change {
			return cluster.Drained(taints.Cordons(found), taints.In(found))
		}))
	}
}

// otherDrains are those of the same devices.
func (p planner) otherDrains(d *v1alpha1.DeviceDrain) (lines []string) {
	ours := map[usage.DeviceID]bool{}
	for _, name := range d.Spec.Devices {
		ours[usage.DeviceID(name)] = true
	}
	for _, other := range p.in.Drains {
		if other.Name == d.Name || fleet.Ended(other) {
			continue
		}
		for id := range fleet.DevicesOf(other) {
			if ours[id] {
				lines = append(lines, fmt.Sprintf("drain %s is about %s, too", other.Name, id))
				break
			}
		}
	}
	slices.Sort(lines)
	return firstLines(lines)
}

// stored is the drain that the field name names, and a plan about it. The plan is whole if the drain
// is nil.
func (p planner) stored(ctx context.Context, what string, words ...string) (*v1alpha1.DeviceDrain, *plan) {
	name := p.text("name")
	pl := &plan{Title: what + " drain " + name, Target: p.live.links.drain(name), Command: p.command(append(words, name)...)}
	d, err := p.options.Writer.Drain(ctx, name)
	switch {
	case err != nil:
		pl.try(nil, clusterwrite.DrainError(err))
		return nil, pl
	case d == nil:
		pl.Nothing, pl.Target = fmt.Sprintf("DeviceDrain %s does not exist.", name), link{p.live.links.to("drains"), "drains"}
		return nil, pl
	}
	pl.Object = fmt.Sprintf("%s/%d", d.UID, d.Generation)
	pl.Sections = []preview{{Title: "DeviceDrain " + name, Lines: []string{clusterwrite.Progress(d)}}}
	return d, pl
}

// pause plans to pause a drain, or to let it go on.
func (p planner) pause(ctx context.Context, paused bool) (*plan, error) {
	what, flag, did := "Continue", "--resume", "goes on"
	if paused {
		what, flag, did = "Pause", "--pause", "paused"
	}
	d, pl := p.stored(ctx, what, "drain", flag)
	if d == nil {
		return pl, nil
	}
	if !clusterwrite.Pauses(d, paused) {
		pl.Nothing = fmt.Sprintf("Drain %s is not paused.", d.Name)
		if paused {
			pl.Nothing = fmt.Sprintf("Drain %s is paused already.", d.Name)
		}
		return pl, nil
	}
	switch by := d.Annotations[v1alpha1.PausedByAnnotation]; {
	case paused && d.Spec.Paused:
		pl.Sections[0].Lines = append(pl.Sections[0].Lines, by+" paused it, and does not continue it after this")
	case paused:
		pl.Sections[0].Lines = append(pl.Sections[0].Lines, "no more pods are evicted; the cordon stays")
	default:
		resumed := d.DeepCopy()
		resumed.Spec.Paused = false
		p.addDrain(ctx, pl, resumed)
		pl.Sections[1].Title = "When it continues"
	}
	pl.try(p.options.Writer.PauseDrain(ctx, d, paused, true))
	pl.write = func(ctx context.Context) (string, error) {
		_, err := p.options.Writer.PauseDrain(ctx, d, paused, false)
		return fmt.Sprintf("devicedrain %s %s", d.Name, did), err
	}
	return pl, nil
}

// cancel plans to delete a drain.
func (p planner) cancel(ctx context.Context) (*plan, error) {
	d, pl := p.stored(ctx, "Cancel", "drain", "--cancel")
	if d == nil {
		return pl, nil
	}
	pl.Sections[0].Lines = append(pl.Sections[0].Lines, "no more pods are evicted; those that have left stay away",
		fmt.Sprintf("the controller removes the cordon: %s can be allocated again, unless other taints keep claims away", plural.Of(int(d.Status.Counts.Devices), "device")))
	pl.try(p.options.Writer.DeleteDrain(ctx, d, true))
	pl.write = func(ctx context.Context) (string, error) {
		_, err := p.options.Writer.DeleteDrain(ctx, d, false)
		return fmt.Sprintf("devicedrain %s deleted; the controller removes its cordon", d.Name), err
	}
	return pl, nil
}
