package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A ruleWriter writes DeviceTaintRules.
type ruleWriter struct {
	streams cmdutil.Streams
	dry     cmdutil.DryRun
	rules   *clusterwrite.Rules
	// shown is the report of the impact that was printed before a write.
	shown string
}

// unlessShown drops warnings that repeat what was printed.
type unlessShown struct {
	rest.WarningHandler
	writer *ruleWriter
}

func (u unlessShown) HandleWarningHeader(code int, agent, text string) {
	if impact, is := strings.CutSuffix(text, " (dra-steward rule "+ruleid.GuardImpact+")"); is && strings.Contains(u.writer.shown, impact) {
		return
	}
	u.WarningHandler.HandleWarningHeader(code, agent, text)
}

func (o taintOptions) writer(streams cmdutil.Streams) (*ruleWriter, error) {
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	w := &ruleWriter{streams: streams, dry: o.dry}
	config.WarningHandler = unlessShown{config.WarningHandler, w}
	if w.rules, err = clusterwrite.NewRules(config); err != nil {
		return nil, err
	}
	w.rules.Progress = func(text string) func() { return streams.Progress(text).End }
	return w, nil
}

// show prints the impact of the next write.
func (w *ruleWriter) show(report taints.PodImpact) error {
	var shown strings.Builder
	err := report.WriteText(io.MultiWriter(w.streams.Out, &shown), true)
	w.shown = shown.String()
	return err
}

// apply writes the rule of an intent; stored is the one that exists.
func (w *ruleWriter) apply(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule) error {
	name, did := taints.Name(intent.Target, intent.Taint.Key), "configured"
	if w.dry != cmdutil.DryRunClient {
		var err error
		if did, err = w.rules.Apply(ctx, intent, stored, w.dry == cmdutil.DryRunServer); err != nil {
			return err
		}
	}
	return w.said(name, did, fmt.Sprintf("%s %s", intent.Target, toleration.TaintText(intent.Taint)), intent.Expires)
}

// said prints what was done, or in a dry run what would be.
func (w *ruleWriter) said(name, did, text string, expires time.Time) error {
	text = fmt.Sprintf("devicetaintrule/%s %s: %s", name, did, text)
	if !expires.IsZero() {
		text += ", until " + expires.UTC().Format(time.RFC3339)
	}
	_, err := printable.Printf(w.streams.Out, "%s\n", text+w.dry.Suffix())
	return err
}

// remove deletes the rule of a target, or prints the other sources of its taint.
func (w *ruleWriter) remove(ctx context.Context, view *tracker.Snapshot, target taints.Target, taint resourceapi.DeviceTaint) error {
	name := taints.Name(target, taint.Key)
	stored := view.Rule(name)
	if !clusterwrite.Ours(stored) || !taints.Same(stored.Spec.Taint, taint) {
		return notOurs(w.streams, view, target, taint)
	}
	if w.dry != cmdutil.DryRunClient {
		if err := w.rules.Delete(ctx, stored, w.dry == cmdutil.DryRunServer); err != nil {
			return err
		}
	}
	for _, left := range taints.Others(view.Devices(), target, taint, name) {
		printable.Printf(w.streams.Err, "warning: still tainted: %v\n", left)
	}
	return w.said(name, "deleted", fmt.Sprintf("%s %s", target, toleration.TaintText(stored.Spec.Taint)), time.Time{})
}

// notOurs returns the other sources of a taint of the target, with a remedy for each.
func notOurs(streams cmdutil.Streams, view *tracker.Snapshot, target taints.Target, taint resourceapi.DeviceTaint) error {
	found := taints.Others(view.Devices(), target, taint, "")
	if len(found) == 0 {
		printable.Printf(streams.Out, "%s has no such taint: nothing to do\n", target)
		return nil
	}
	return errors.Join(found...)
}
