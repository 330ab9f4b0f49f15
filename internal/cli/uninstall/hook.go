package uninstall

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of what a tool has installed that runs the hooks of a chart when they are due. Argo CD renders charts as
// helm template does, and runs this hook when its Application is deleted.
const (
	ofHelm   = "meta.helm.sh/release-name"
	ofArgoCD = "argocd.argoproj.io/tracking-id"
)

// checkHook returns an error if the Job of the chart was applied like any other object, which starts it at once. Every release
// has the Deployment of the webhook.
func (u *uninstall) checkHook(ctx context.Context) error {
	if !u.hook {
		return nil
	}
	d, err := u.client.AppsV1().Deployments(u.namespace).Get(ctx, u.webhook, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("--hook: cannot read Deployment %s/%s, whose annotations name the tool that has installed the release; nothing was changed: %w; "+
			"to remove the rest of a release, run dra-steward uninstall, and helm uninstall --no-hooks", u.namespace, u.webhook, err)
	}
	if d.Annotations[ofHelm] == "" && d.Annotations[ofArgoCD] == "" {
		return fmt.Errorf("--hook: nothing was changed, because neither Helm nor Argo CD has installed Deployment %s/%s: it has no annotation %s or %s. "+
			"This Job is a hook, and whoever renders the chart leaves hooks out: helm template --no-hooks, or skipHooks: true in helmCharts of kustomize. "+
			"To prepare the removal, run dra-steward uninstall without --hook", u.namespace, u.webhook, ofHelm, ofArgoCD)
	}
	return nil
}
