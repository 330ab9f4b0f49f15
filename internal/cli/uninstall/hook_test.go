package uninstall

import (
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestHook: the Job of the chart that kubectl has applied changes nothing.
func TestHook(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace   string
		annotations map[string]string
		person      bool
		want        string
	}{
		"by Helm":     {namespace: "n", annotations: map[string]string{"meta.helm.sh/release-name": "a"}},
		"by Argo CD":  {namespace: "n", annotations: map[string]string{"argocd.argoproj.io/tracking-id": "a:apps/Deployment:n/w"}},
		"by kubectl":  {namespace: "n", annotations: map[string]string{"deployment.kubernetes.io/revision": "1"}, want: "neither Helm nor Argo CD has installed Deployment n/w"},
		"not yet":     {namespace: "other", want: `deployments.apps "w" not found`},
		"of a person": {namespace: "n", person: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: "w", Annotations: tt.annotations}})
			u := &uninstall{uninstallOptions: uninstallOptions{namespace: "n", webhook: "w", hook: !tt.person}, client: client, out: io.Discard}
			err := u.checkHook(t.Context())
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
