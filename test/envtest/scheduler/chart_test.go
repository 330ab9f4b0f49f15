package scheduler_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// The scheduler of the chart, with its rights, arguments and configuration, takes over the
// Lease of kube-scheduler and schedules by patches.
func TestChart(t *testing.T) {
	w := start(t, onlyPatched, "node-0") // a scheduler without leader election, which is stopped
	if err := w.StopComponent(assets.Scheduler); err != nil {
		t.Fatal(err)
	}
	w.installType(t)
	w.publish(t, "node-0", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"})
	kubeconfig, err := w.UserKubeconfig("system:serviceaccount:dra-steward:dra-steward-scheduler", "system:serviceaccounts", "system:serviceaccounts:dra-steward", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	args := w.installScheduler(t, kubeconfig)
	port := freePort(t)
	command := exec.CommandContext(t.Context(), file, append(args, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)...)
	command.Env = append(os.Environ(), "POD_NAMESPACE=dra-steward", "POD_NAME=scheduler-0")
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		text, _ := os.ReadFile(log.Name())
		if t.Failed() {
			t.Logf("%s", text)
		}
		if strings.Contains(string(text), "forbidden") {
			t.Errorf("a right is missing:\n%s", text)
		}
		if strings.Contains(string(text), "Pods are preempted") {
			t.Errorf("DefaultPreemption comes first:\n%s", text)
		}
	})
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	eventually(t, "the scheduler is ready", func() bool {
		response, err := insecure.Get("https://127.0.0.1:" + port + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	w.metrics(t, insecure, "https://127.0.0.1:"+port+"/metrics")
	w.ask(t, "patched", "", `device.attributes["dc.example.com"].?rack.orValue("") == "r12"`)
	w.isPending(t, "patched")
	w.patch(t, "rack", `{filter: {device: b}, attributes: {dc.example.com/rack: {string: r12}}}`)
	if got := w.isBound(t, "patched"); got != "node-0/b" {
		t.Errorf("the pod got %s", got)
	}
	lease, err := w.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		t.Errorf("the Lease: %v, %v", lease, err)
	}
	// what keeps patches from being written into slices as well
	var renewed time.Time
	eventually(t, "it renews the Lease that says that it applies patches", func() bool {
		lease, err := w.CoordinationV1().Leases(record.SchedulerLeaseNamespace).Get(t.Context(), record.SchedulerLeaseName, metav1.GetOptions{})
		if err != nil || *lease.Spec.LeaseDurationSeconds < 20 {
			return false
		}
		before := renewed
		renewed = lease.Spec.RenewTime.Time
		return !before.IsZero() && renewed.After(before)
	})
}

// metrics scrapes as Prometheus does, with the token of an account: one that may get /metrics
// reads them, others do not.
func (w *world) metrics(t *testing.T, c *http.Client, url string) {
	t.Helper()
	token := func(account string) string {
		if account == "" {
			return ""
		}
		object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "default"}}
		if _, err := w.CoreV1().ServiceAccounts("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		issued, err := w.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return issued.Status.Token
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	if _, err := w.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-metrics"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "prometheus", Namespace: "default"}}}
	if _, err := w.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]int{"prometheus": http.StatusOK, "another": http.StatusForbidden, "": http.StatusForbidden} {
		bearer := token(account)
		eventually(t, fmt.Sprintf("account %q gets status %d", account, want), func() bool {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if bearer != "" {
				request.Header.Set("Authorization", "Bearer "+bearer)
			}
			response, err := c.Do(request)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return err == nil && response.StatusCode == want && (want != http.StatusOK || strings.Contains(string(text), "scheduler_schedule_attempts_total"))
		})
	}
}

// installScheduler applies the scheduler's objects, except the Deployment, whose arguments
// it returns; the kubeconfig replaces the token of the pod.
func (w *world) installScheduler(t *testing.T, kubeconfig string) (args []string) {
	t.Helper()
	objects, err := chart.Render(map[string]any{"scheduler": map[string]any{"enabled": true},
		"certificates": map[string]any{"mode": "provided", "existingSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----\n…"}}, chart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(w.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "dra-steward"}}}}
	config := filepath.Join(t.TempDir(), "config.yaml")
	for _, object := range objects {
		if object.GetLabels()["app.kubernetes.io/component"] != "scheduler" {
			continue
		}
		switch object.GetKind() {
		case "Deployment":
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			args, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		case "ConfigMap":
			text, _, _ := unstructured.NestedString(object.Object, "data", "config.yaml")
			if err := os.WriteFile(config, []byte(text+"clientConnection: {kubeconfig: "+kubeconfig+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, object)
	}
	for _, object := range all {
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	for i, arg := range args {
		args[i] = strings.Replace(arg, "/etc/dra-steward/config.yaml", config, 1)
	}
	return args
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
