package clusterwrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
)

// Rules writes DeviceTaintRules in the newest version that is served.
type Rules struct {
	client  dynamic.ResourceInterface
	version string
	// Progress is called with the reason why a write waits, and returns what ends that; nil is not called.
	Progress func(text string) (end func())
}

// NewRules returns what writes rules.
func NewRules(config *rest.Config) (*Rules, error) {
	client, version, err := clusterread.ServedRules(Collecting(config))
	if err != nil {
		return nil, err
	}
	return &Rules{client: client, version: version}, nil
}

// Apply writes the rule of an intent, and returns whether it is created, changed or unchanged; stored is
// the one that exists. If a policy requires it, the rule is written with the effect None first, so that
// its status shows the impact. In a dry run, the API server checks the first of these writes.
func (r *Rules) Apply(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule, dry bool) (did string, _ error) {
	previewed := false
	if intent.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		needed, refused, err := r.needsPreview(ctx, intent)
		if err != nil {
			return "", err
		}
		// The effect None would put devices back into use that the rule keeps pods off.
		needed = needed && (refused || stored == nil || stored.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone)
		if needed && dry {
			intent.Taint.Effect = resourceapi.DeviceTaintEffectNone // the first of the two writes
		} else if needed {
			if err := r.preview(ctx, intent, stored); err != nil {
				return "", err
			}
			previewed = true
		}
	}
	applied, err := r.write(ctx, intent.Rule(), dryRun(dry))
	switch {
	case err != nil && previewed:
		return "", errors.Join(err, r.undo(ctx, intent, stored))
	case err != nil:
		return "", err
	case stored == nil:
		return "created", nil
	case stored.ResourceVersion == applied.GetResourceVersion():
		return "unchanged", nil
	}
	return "changed", nil
}

// dryRun is the field DryRun of the options of a write.
func dryRun(dry bool) []string {
	if dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// noPreview is the policy about evictions without a preview.
const noPreview = "DRA-RULE-003"

// needsPreview tries a write, and reports whether a policy requires the effect None first. What is
// refused for another reason is an error. The impact has been shown already, but only a stored rule
// proves that.
func (r *Rules) needsPreview(ctx context.Context, intent taints.Intent) (needed, refused bool, _ error) {
	trial, warned := Collect(ctx)
	_, err := r.write(trial, intent.Rule(), dryRun(true))
	if err != nil {
		if strings.Contains(err.Error(), noPreview) {
			return true, true, nil
		}
		return false, false, err
	}
	return strings.Contains(strings.Join(warned.Texts, "\n"), noPreview), false, nil
}

// previewTime is how long a controller may take to report the impact of a rule.
const previewTime = 20 * time.Second

// preview writes the rule with the effect None, and waits until a controller has reported
// its impact. Without a report the API server decides about the next write.
func (r *Rules) preview(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule) error {
	intent.Taint.Effect = resourceapi.DeviceTaintEffectNone
	applied, err := r.write(ctx, intent.Rule(), nil)
	if err != nil {
		return err
	}
	if r.Progress != nil {
		defer r.Progress("waiting for the impact in the status of devicetaintrule/" + applied.GetName())()
	}
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, previewTime, true, func(ctx context.Context) (bool, error) {
		rule, err := r.client.Get(ctx, applied.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(rule.Object, "status", "conditions")
		for _, condition := range conditions {
			fields, _ := condition.(map[string]any)
			generation, _, _ := unstructured.NestedInt64(fields, "observedGeneration")
			if fields["type"] == resourceapi.DeviceTaintConditionEvictionInProgress && generation == rule.GetGeneration() {
				return true, nil
			}
		}
		return false, err
	})
	if err == nil || wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return errors.Join(err, r.undo(ctx, intent, stored))
}

// undoTime bounds the restoring of a rule.
const undoTime = 10 * time.Second

// undo restores what a refused write found.
func (r *Rules) undo(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime) // also after Ctrl-C
	defer cancel()
	if stored == nil {
		return r.client.Delete(ctx, taints.Name(intent.Target, intent.Taint.Key), metav1.DeleteOptions{})
	}
	_, err := r.write(ctx, &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: stored.Name, Labels: stored.Labels, Annotations: stored.Annotations}, Spec: stored.Spec}, nil)
	return err
}

func (r *Rules) write(ctx context.Context, rule *resourceapi.DeviceTaintRule, dry []string) (*unstructured.Unstructured, error) {
	rule.APIVersion, rule.Kind = resourceapi.GroupName+"/"+r.version, "DeviceTaintRule"
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
	applied, err := r.client.Patch(ctx, rule.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: taints.ManagedByTaint, Force: &force, DryRun: dry})
	if apierrors.IsInvalid(err) && rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNone && strings.Contains(err.Error(), "spec.taint.effect: Unsupported value") {
		return nil, fmt.Errorf("%w: the effect None needs Kubernetes 1.35", err)
	}
	return applied, err
}

// Get reads a rule; nil if there is none.
func (r *Rules) Get(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error) {
	found, err := r.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newer.Convert[resourceapi.DeviceTaintRule](found)
}

// Delete deletes a stored rule. One that is gone is no error.
func (r *Rules) Delete(ctx context.Context, stored *resourceapi.DeviceTaintRule, dry bool) error {
	uid := stored.UID
	options := metav1.DeleteOptions{DryRun: dryRun(dry), Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := r.client.Delete(ctx, stored.Name, options); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// Ours reports whether "dra-steward taint" has written a rule.
func Ours(rule *resourceapi.DeviceTaintRule) bool {
	return rule != nil && rule.Labels[taints.ManagedBy] == taints.ManagedByTaint
}
