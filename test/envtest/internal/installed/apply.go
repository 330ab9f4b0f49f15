package installed

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
)

// Owner is the field manager of what Apply writes.
const Owner = client.FieldOwner("gitops")

// Apply renders the chart and applies every object of it unchanged, on the server's side,
// as GitOps tools do. The namespace is made first, with the Pod Security Standard
// restricted enforced.
func Apply(ctx context.Context, cluster *envtest.Cluster, values map[string]any, o chart.Options) ([]*unstructured.Unstructured, error) {
	o.KubeVersion = cluster.Version()
	objects, err := chart.Render(values, o)
	if err != nil {
		return nil, err
	}
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": namespaceOf(objects), "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}}}}
	for _, object := range append([]*unstructured.Unstructured{namespace}, objects...) {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), Owner, client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return objects, nil
}

func namespaceOf(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			return object.GetNamespace()
		}
	}
	return ""
}

// Available says what is missing until every Deployment of a namespace runs its present
// template with all replicas ready, nil if nothing is.
func Available(ctx context.Context, c client.Client, namespace string) error {
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	var missing []string
	for _, d := range deployments.Items {
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < *d.Spec.Replicas || s.Replicas > s.UpdatedReplicas || s.ReadyReplicas < *d.Spec.Replicas {
			missing = append(missing, fmt.Sprintf("%s: %d of %d replicas ready, %d up to date, %d in all", d.Name, s.ReadyReplicas, *d.Spec.Replicas, s.UpdatedReplicas, s.Replicas))
		}
	}
	if len(deployments.Items) == 0 || len(missing) > 0 {
		return fmt.Errorf("%d Deployments: %s", len(deployments.Items), strings.Join(missing, "; "))
	}
	return nil
}
