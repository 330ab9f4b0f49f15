package evictor

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// ProbeName is the DeviceTaintRule that a [RuleProber] makes and removes. It selects a
// driver that does not exist and has the effect None.
const ProbeName = "dra-steward-probe"

// RuleProber makes a DeviceTaintRule that does nothing: the controller in
// kube-controller-manager writes a condition into its status, if it knows rules.
type RuleProber struct {
	Client dynamic.Interface
	// Answer is how long to wait, [ProbeAnswer] if zero.
	Answer time.Duration
}

// Probe implements [Prober]. It takes the newest version of the API that is served.
func (p RuleProber) Probe(ctx context.Context) (answered bool, err error) {
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		client := p.Client.Resource(schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"})
		if answered, err = p.probe(ctx, client, version); !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("DeviceTaintRule %s: %w", ProbeName, err)
	}
	return answered, nil
}

func (p RuleProber) probe(ctx context.Context, client dynamic.NamespaceableResourceInterface, version string) (answered bool, err error) {
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourceapi.GroupName + "/" + version, "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": ProbeName},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": "probe.dra-steward.io", "pool": "none", "device": "none"},
			"taint":          map[string]any{"key": "dra-steward.io/probe", "effect": string(resourceapi.DeviceTaintEffectNone)},
		},
	}}
	// One that was left behind could have an answer from long ago.
	if err := client.Delete(ctx, ProbeName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	if _, err := client.Create(ctx, rule, metav1.CreateOptions{FieldManager: FieldManager}); err != nil {
		return false, err
	}
	defer func() {
		// What is left behind is deleted by the next one.
		_ = client.Delete(context.WithoutCancel(ctx), ProbeName, metav1.DeleteOptions{})
	}()
	return p.wait(ctx, client)
}

// wait looks once a second whether somebody has written a condition.
func (p RuleProber) wait(ctx context.Context, client dynamic.NamespaceableResourceInterface) (bool, error) {
	limit := p.Answer
	if limit == 0 {
		limit = ProbeAnswer
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-tick.C:
		}
		rule, err := client.Get(ctx, ProbeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if conditions, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions"); len(conditions) > 0 {
			return true, nil
		}
	}
}
