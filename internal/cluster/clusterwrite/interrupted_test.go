package clusterwrite

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// stopped is an API server whose user presses Ctrl-C while the command waits for the impact.
type stopped struct {
	dynamic.ResourceInterface
	interrupt func()
	effects   []resourceapi.DeviceTaintEffect
}

func (s *stopped) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, o metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(o.DryRun) > 0 {
		return nil, errors.New("evicts immediately (dra-steward rule DRA-RULE-003)")
	}
	rule := resourceapi.DeviceTaintRule{}
	if err := json.Unmarshal(data, &rule); err != nil {
		return nil, err
	}
	s.effects = append(s.effects, rule.Spec.Taint.Effect)
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}, nil
}

func (s *stopped) Get(ctx context.Context, _ string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	s.interrupt()
	return nil, ctx.Err()
}

// TestInterrupted: Ctrl-C during the preview leaves the taint as it was.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := &stopped{interrupt: cancel}
	target := taints.Target{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}
	intent := taints.Intent{Target: target, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	stored := taints.Intent{Target: target, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}.Rule()
	_, err := (&Rules{client: server, version: "v1"}).Apply(ctx, intent, stored, false)
	if err == nil || len(server.effects) == 0 || server.effects[len(server.effects)-1] != resourceapi.DeviceTaintEffectNoSchedule {
		t.Errorf("%v, and the effects that were written are %q: the device is in use again", err, server.effects)
	}
}

// reporting is an API server whose controllers write a condition after each read of a rule.
type reporting struct {
	stopped
	conditions []any
	written    int
}

func (r *reporting) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	r.written++
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"generation": int64(2)}, "status": map[string]any{"conditions": r.conditions[:r.written-1]}}}, nil
}

// TestWaitsForTheImpact: other conditions in the status are not the impact.
func TestWaitsForTheImpact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		condition := func(kind string) any { return map[string]any{"type": kind, "observedGeneration": int64(2)} }
		server := &reporting{conditions: []any{condition(guard.BeganCondition), condition(resourceapi.DeviceTaintConditionEvictionInProgress), condition("later")}}
		intent := taints.Intent{Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}
		if err := (&Rules{client: server, version: "v1"}).preview(t.Context(), intent, nil); err != nil || server.written != 3 {
			t.Errorf("%v, after %d reads", err, server.written)
		}
	})
}
