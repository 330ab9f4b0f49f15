package installed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/chart"
)

// enforcing are values of the strictest mode, with which a rotation takes seconds.
func enforcing(more map[string]any) map[string]any {
	values := map[string]any{"mode": "enforce", "certificates": map[string]any{"selfManaged": map[string]any{"waitAfterChange": "3s"}}}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// TestFailClosed: in mode enforce, a tenant's claim is refused while no replica answers, and
// a pod of a template that exists starts. That holds for a release that lost its replicas,
// and for a first install whose pods have never been ready.
func TestFailClosed(t *testing.T) {
	c, clients := install(t, enforcing(nil))
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	devices(t, clients)

	t.Run("webhooks removed and restored", func(t *testing.T) {
		removeWebhooks(t, clients)
		eventually(t, "nothing is checked", func(ctx context.Context) error { return dryRun(ctx, clients, badClaim()) })
		restore(t, h, enforcing(nil))
		objects, err := chart.Render(enforcing(nil), chart.Options{KubeVersion: cluster.Version()})
		must(t, err)
		// The webhooks own the certificate: with them it goes, and comes again.
		eventually(t, "every webhook has its caBundle", func(ctx context.Context) error {
			certificate, err := clients.CoreV1().Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return allTrust(ctx, c, objects, certificate.Data["ca.crt"])
		})
		eventually(t, "guarded again", func(ctx context.Context) error { return guarded(ctx, clients) })
	})
	t.Run("no replicas", func(t *testing.T) {
		scale(t, clients, 0)
		eventually(t, "no webhook runs", func(context.Context) error { return count(0) })
		refusedWhileDown(t, clients)
		scale(t, clients, 2)
		waitReady(t, c)
		eventually(t, "guarded again", func(ctx context.Context) error { return guarded(ctx, clients) })
	})
	t.Run("first install", func(t *testing.T) {
		for _, deployment := range []string{"dra-steward", "dra-steward-controller"} {
			_, err := clients.AppsV1().Deployments(namespace).Patch(t.Context(), deployment, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
			must(t, err)
		}
		eventually(t, "nothing runs", func(context.Context) error {
			if n := len(kubelet.All("webhook")) + len(kubelet.All("controller")); n > 0 {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
		removeWebhooks(t, clients)
		if err := clients.CoreV1().Secrets(namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			must(t, err)
		}
		restore(t, h, enforcing(map[string]any{"nodeSelector": map[string]any{"example.com/node": "none"}}))
		refusedWhileDown(t, clients)
	})
}

// refusedWhileDown starts a pod whose claim comes from a template, and fails unless claims
// and templates of other users are refused for want of an answer.
func refusedWhileDown(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	eventually(t, "a claim is refused", func(ctx context.Context) error { return wantUnanswered(dryRun(ctx, clients, goodClaim())) })
	_, err := clients.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: goodClaim().Spec}}, metav1.CreateOptions{})
	must(t, wantUnanswered(err))
	name := runs(t, clients)
	must(t, wantUnanswered(dryRun(t.Context(), clients, goodClaim())))
	must(t, clients.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func wantUnanswered(err error) error {
	if err == nil {
		return errors.New("admitted without an answer of the webhook")
	}
	if !strings.Contains(err.Error(), "failed calling webhook") {
		return err
	}
	return nil
}

func dryRun(ctx context.Context, clients kubernetes.Interface, claim *resourceapi.ResourceClaim) error {
	_, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// removeWebhooks is the command for an emergency (docs/operations.md).
func removeWebhooks(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward"}
	must(t, clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, ours))
	must(t, clients.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, ours))
	left, err := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, configuration := range left.Items {
		for _, webhook := range configuration.Webhooks {
			if webhook.FailurePolicy != nil && *webhook.FailurePolicy == admissionv1.Fail {
				t.Errorf("%s is left", webhook.Name)
			}
		}
	}
}

func restore(t *testing.T, h helm, values map[string]any) {
	t.Helper()
	upgrading(t, func() { h.release(t, values) })
}
