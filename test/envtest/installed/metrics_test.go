package installed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

// TestSecureMetrics: with monitoring.secure, webhook and controller serve metrics by HTTPS to
// accounts that may get /metrics, with the rights that the chart gives them to find that out.
func TestSecureMetrics(t *testing.T) {
	values := quick()
	values["monitoring"] = map[string]any{"secure": true}
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	stranger, reader := account(t, clients, "stranger"), account(t, clients, "prometheus")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: "prometheus"}}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = clients.RbacV1().ClusterRoleBindings().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		_ = clients.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
	pods := append(kubelet.Pods("webhook"), kubelet.Pods("controller")...)
	if len(pods) != 3 {
		t.Fatalf("%d pods, want 3", len(pods))
	}
	for _, pod := range pods {
		for _, test := range []struct {
			who, token string
			want       int
		}{{"no token", "", http.StatusUnauthorized}, {"a forged token", "forged", http.StatusUnauthorized}, {"an account without the right", stranger, http.StatusForbidden}} {
			if got, _ := scrape(t, pod, test.token); got != test.want {
				t.Errorf("%s, %s: status %d, want %d", pod.Object.Name, test.who, got, test.want)
			}
		}
		eventually(t, "metrics of "+pod.Object.Name, func(context.Context) error {
			if status, body := scrape(t, pod, reader); status != http.StatusOK || !strings.Contains(body, "dra_steward_") {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}
	eventually(t, "the controller reads the state of policies", func(ctx context.Context) error {
		state, err := clients.CoreV1().ConfigMaps(namespace).Get(ctx, "dra-steward-policies", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, pod := range kubelet.Pods("webhook") {
			if !strings.Contains(state.Data["replicas.yaml"], pod.Object.Name) || strings.Contains(state.Data["replicas.yaml"], "silent:") {
				return errors.New(state.Data["replicas.yaml"])
			}
		}
		return nil
	})
}

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, clients kubernetes.Interface, name string) string {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = accounts.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return token.Status.Token
}

// scrape asks a pod for its metrics.
func scrape(t *testing.T, pod *installed.Pod, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(pod.URL("metrics", "/metrics"), "http:", "https:", 1), nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}
