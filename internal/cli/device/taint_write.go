package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/ruleid"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A ruleWriter writes DeviceTaintRules.
type ruleWriter struct {
	streams cmdutil.Streams
	dry     cmdutil.DryRun
	// rules are those of the newest version that is served; trial is the same without
	// warnings.
	rules, trial dynamic.ResourceInterface
	warned       *warnings
	version      string
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

// warnings are those of the API server about one write.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func (o taintOptions) writer(streams cmdutil.Streams) (*ruleWriter, error) {
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return nil, err
	}
	w := &ruleWriter{streams: streams, dry: o.dry, warned: &warnings{}}
	config.WarningHandler = unlessShown{config.WarningHandler, w}
	if w.rules, w.version, err = clusterread.ServedRules(config); err != nil {
		return nil, err
	}
	quiet := rest.CopyConfig(config)
	quiet.WarningHandler = w.warned
	w.trial, _, err = clusterread.ServedRules(quiet)
	return w, err
}

// show prints the impact of the next write.
func (w *ruleWriter) show(report taints.Report) error {
	var shown strings.Builder
	err := report.WriteText(io.MultiWriter(w.streams.Out, &shown))
	w.shown = shown.String()
	return err
}

// apply writes the rule of an intent; stored is the one that exists.
func (w *ruleWriter) apply(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule) error {
	name := taints.Name(intent.Target, intent.Taint.Key)
	text := fmt.Sprintf("%s %s", intent.Target, toleration.TaintText(intent.Taint))
	if w.dry == cmdutil.DryRunClient {
		return w.said(name, "configured", text, intent.Expires)
	}
	previewed := false
	if intent.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		needed, err := w.needsPreview(ctx, intent)
		if err != nil {
			return err
		}
		if needed && w.dry == cmdutil.DryRunServer {
			intent.Taint.Effect = resourceapi.DeviceTaintEffectNone // the first of the two writes
		} else if needed {
			if err := w.preview(ctx, intent); err != nil {
				return err
			}
			previewed = true
		}
	}
	applied, err := w.write(ctx, w.rules, intent, w.dry.Write())
	if err != nil && previewed {
		return errors.Join(err, w.undo(ctx, name, stored))
	}
	if err != nil {
		return err
	}
	did := "changed"
	switch {
	case stored == nil:
		did = "created"
	case stored.ResourceVersion == applied.GetResourceVersion():
		did = "unchanged"
	}
	return w.said(name, did, text, intent.Expires)
}

// noPreview is the policy about evictions without a preview.
const noPreview = "DRA-RULE-003"

// needsPreview tries a write, and reports whether a policy requires the effect None first.
// The impact has been shown already, but only a stored rule proves that.
func (w *ruleWriter) needsPreview(ctx context.Context, intent taints.Intent) (bool, error) {
	w.warned.texts = nil
	_, err := w.write(ctx, w.trial, intent, []string{metav1.DryRunAll})
	text := strings.Join(w.warned.texts, "\n")
	if err != nil {
		text += "\n" + err.Error()
	}
	if strings.Contains(text, noPreview) {
		return true, nil
	}
	return false, err
}

// previewTime is how long a controller may take to report the impact of a rule.
const previewTime = 20 * time.Second

// preview writes the rule with the effect None, and waits until a controller has reported
// its impact. Without a report the API server decides about the next write.
func (w *ruleWriter) preview(ctx context.Context, intent taints.Intent) error {
	intent.Taint.Effect = resourceapi.DeviceTaintEffectNone
	applied, err := w.write(ctx, w.rules, intent, nil)
	if err != nil {
		return err
	}
	progress := w.streams.Progress("waiting for the impact in the status of devicetaintrule/" + applied.GetName())
	defer progress.End()
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, previewTime, true, func(ctx context.Context) (bool, error) {
		rule, err := w.rules.Get(ctx, applied.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(rule.Object, "status", "conditions")
		for _, condition := range conditions {
			fields, _ := condition.(map[string]any)
			if generation, _, _ := unstructured.NestedInt64(fields, "observedGeneration"); generation == rule.GetGeneration() {
				return true, nil
			}
		}
		return false, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// undo restores what a refused write found.
func (w *ruleWriter) undo(ctx context.Context, name string, stored *resourceapi.DeviceTaintRule) error {
	if stored == nil {
		return w.rules.Delete(ctx, name, metav1.DeleteOptions{})
	}
	_, err := w.applyRule(ctx, w.rules, &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: stored.Labels, Annotations: stored.Annotations}, Spec: stored.Spec}, nil)
	return err
}

func (w *ruleWriter) write(ctx context.Context, rules dynamic.ResourceInterface, intent taints.Intent, dry []string) (*unstructured.Unstructured, error) {
	return w.applyRule(ctx, rules, intent.Rule(), dry)
}

func (w *ruleWriter) applyRule(ctx context.Context, rules dynamic.ResourceInterface, rule *resourceapi.DeviceTaintRule, dry []string) (*unstructured.Unstructured, error) {
	rule.APIVersion, rule.Kind = resourceapi.GroupName+"/"+w.version, "DeviceTaintRule"
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	if err != nil {
		return nil, err
	}
	delete(fields, "status") // in Kubernetes 1.34 a rule has none
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	force := true
	return rules.Patch(ctx, rule.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: taints.ManagedByTaint, Force: &force, DryRun: dry})
}

// said prints what was done, or in a dry run what would be.
func (w *ruleWriter) said(name, did, text string, expires time.Time) error {
	text = fmt.Sprintf("devicetaintrule/%s %s: %s", name, did, text)
	if !expires.IsZero() {
		text += ", until " + expires.UTC().Format(time.RFC3339)
	}
	_, err := fmt.Fprintln(w.streams.Out, text+w.dry.Suffix())
	return err
}

// remove deletes the rule of a target, or prints the other sources of its taint.
func (w *ruleWriter) remove(ctx context.Context, view *tracker.Snapshot, target taints.Target, taint resourceapi.DeviceTaint) error {
	name := taints.Name(target, taint.Key)
	stored := view.Rule(name)
	if stored == nil || stored.Labels[taints.ManagedBy] != taints.ManagedByTaint || !taints.Same(stored.Spec.Taint, taint) {
		return notOurs(w.streams, view, target, taint)
	}
	if w.dry != cmdutil.DryRunClient {
		uid := stored.UID
		if err := w.rules.Delete(ctx, name, metav1.DeleteOptions{DryRun: w.dry.Write(), Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, left := range taints.Others(view.Devices(), target, taint, name) {
		fmt.Fprintf(w.streams.Err, "warning: still tainted: %v\n", left)
	}
	return w.said(name, "deleted", fmt.Sprintf("%s %s", target, toleration.TaintText(stored.Spec.Taint)), time.Time{})
}

// notOurs returns the other sources of a taint of the target, with a remedy for each.
func notOurs(streams cmdutil.Streams, view *tracker.Snapshot, target taints.Target, taint resourceapi.DeviceTaint) error {
	found := taints.Others(view.Devices(), target, taint, "")
	if len(found) == 0 {
		fmt.Fprintf(streams.Out, "%s has no such taint: nothing to do\n", target)
		return nil
	}
	return errors.Join(found...)
}
