package patchstatus

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

type apiClient struct {
	patches dynamic.ResourceInterface
	events  kubernetes.Interface
}

// NewClient returns a client that needs the verbs patch for resourceslicepatches/status
// and create for events.
func NewClient(config *rest.Config) (Client, error) {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for ResourceSlicePatches: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for events: %w", err)
	}
	return apiClient{untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)), typed}, nil
}

// WriteStatus sends a merge patch, in which a list replaces the list and null removes.
func (c apiClient) WriteStatus(ctx context.Context, p *v1alpha1.ResourceSlicePatch, status v1alpha1.ResourceSlicePatchStatus) (string, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{
			"conditions": status.Conditions, "matchedSlices": status.MatchedSlices, "matchedDevices": status.MatchedDevices,
			"skippedKeys": status.SkippedKeys,
		},
	})
	if err != nil {
		return "", err
	}
	written, err := c.patches.Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	if err != nil {
		return "", err
	}
	return written.GetResourceVersion(), nil
}

func (c apiClient) CreateEvent(ctx context.Context, e *corev1.Event) error {
	_, err := c.events.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{FieldManager: FieldManager})
	return err
}
