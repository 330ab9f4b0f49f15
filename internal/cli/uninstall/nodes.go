package uninstall

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// cleanNodes uncordons the nodes that rolls have cordoned, where rules are lifted, or lists them. A node
// that a person has cordoned has no annotation of a roll, and stays as it is.
func (u *uninstall) cleanNodes(ctx context.Context) error {
	kept := 0
	u.progress.Say("reading nodes")
	for options := (metav1.ListOptions{Limit: 500}); ; {
		list, err := u.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return fmt.Errorf("cannot list nodes: %w", err)
		}
		for i := range list.Items {
			node := &list.Items[i]
			roll, cordoned := node.Annotations[v1alpha1.RollAnnotation]
			if !cordoned || !node.Spec.Unschedulable {
				continue
			}
			lifted, err := u.uncordon(ctx, node)
			if err != nil {
				return fmt.Errorf("node %s: %w", node.Name, err)
			}
			if lifted {
				u.say("node %s, cordoned by DeviceRoll %s: uncordoned", node.Name, roll)
				continue
			}
			kept++
			u.say("node %s, cordoned by DeviceRoll %s: kept; to uncordon it: kubectl uncordon %s", node.Name, roll, node.Name)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if kept > 0 {
		u.note("%s kept cordoned; the work of a roll may not be done", plural.Of(kept, "node"))
	}
	return nil
}

// uncordon takes back the cordon of a roll, where rules are lifted. It reports false without the right to,
// which the chart grants with controller.rolls.nodes.
func (u *uninstall) uncordon(ctx context.Context, node *corev1.Node) (lifted bool, err error) {
	if u.taintRules != liftRules || u.dryRun != "" {
		return u.taintRules == liftRules, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": map[string]any{v1alpha1.RollAnnotation: nil}},
		"spec":     map[string]any{"unschedulable": nil},
	})
	if err != nil {
		return false, err
	}
	_, err = u.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return err == nil, err
}
