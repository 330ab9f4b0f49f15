package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
)

// TestExtendedResources: the controller keeps the webhook for the names that DeviceClasses
// declare, also through upgrades, and the limits for pods hold while no replica answers.
func TestExtendedResources(t *testing.T) {
	const declared, implicit = "example.com/gpu", resourceapi.ResourceDeviceClassPrefix + driver
	values := enforcing(map[string]any{"extendedResources": map[string]any{"limits": map[string]any{implicit: 1, declared: 1}}})
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	extended := declared
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &extended}}
	_, err := clients.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = clients.ResourceV1().DeviceClasses().Delete(context.Background(), driver, metav1.DeleteOptions{})
	})
	eventually(t, "the webhook lists the name", func(ctx context.Context) error { return lists(ctx, clients, declared) })
	restore(t, h, values)
	eventually(t, "the webhook lists the name after an upgrade", func(ctx context.Context) error { return lists(ctx, clients, declared) })
	typesAreCorrect(t, clients)

	scale(t, clients, 0)
	eventually(t, "no webhook runs", func(context.Context) error { return count(0) })
	for _, resourceName := range []string{implicit, declared} {
		eventually(t, "a pod at the limit is admitted", func(ctx context.Context) error { return asksFor(ctx, clients, resourceName, 1) })
		eventually(t, "a pod above the limit is refused", func(ctx context.Context) error {
			err := asksFor(ctx, clients, resourceName, 2)
			if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), resourceName) {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
	}
	scale(t, clients, 2)
	waitReady(t, c)
	must(t, clients.ResourceV1().DeviceClasses().Delete(t.Context(), driver, metav1.DeleteOptions{}))
	eventually(t, "the webhook for declared names is removed", func(ctx context.Context) error {
		if err := lists(ctx, clients, declared); !errors.Is(err, errNotListed) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

var errNotListed = errors.New("there is no webhook for declared names")

// lists is nil if the webhook for declared names has the name, and the authority.
func lists(ctx context.Context, clients kubernetes.Interface, resourceName string) error {
	configuration, err := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var authority []byte
	for _, webhook := range configuration.Webhooks {
		if webhook.Name == extendedresources.ImplicitWebhook {
			authority = webhook.ClientConfig.CABundle
		}
	}
	for _, webhook := range configuration.Webhooks {
		if webhook.Name != extendedresources.ListedWebhook {
			continue
		}
		if len(authority) == 0 || !bytes.Equal(webhook.ClientConfig.CABundle, authority) || !strings.Contains(webhook.MatchConditions[0].Expression, `"`+resourceName+`"`) {
			return fmt.Errorf("%d bytes of caBundle, condition %s", len(webhook.ClientConfig.CABundle), webhook.MatchConditions[0].Expression)
		}
		return nil
	}
	return errNotListed
}

// asksFor creates a pod with an extended resource as a dry run.
func asksFor(ctx context.Context, clients kubernetes.Interface, resourceName string, n int64) error {
	amount := corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI)}
	_, err := clients.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "extended-"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Limits: amount, Requests: amount}}}}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// typesAreCorrect waits for kube-controller-manager to check the types of the policy.
func typesAreCorrect(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	eventually(t, "the policy's types are checked", func(ctx context.Context) error {
		policy, err := clients.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name+"-extended-resources", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if policy.Status.TypeChecking == nil {
			return errors.New("not yet")
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
		}
		return nil
	})
}
