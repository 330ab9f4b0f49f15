package installed

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

// TestFirstInstall: with no value at all and nothing else in the cluster, what is
// installed becomes ready and guards.
func TestFirstInstall(t *testing.T) {
	start := time.Now()
	c, clients := install(t, nil)
	running := time.Since(start)
	eventually(t, "the cluster is guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	t.Logf("applied to running %v, to guarded %v", running.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	stored := &corev1.Secret{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: secret}, stored))
	if owner := stored.OwnerReferences; len(owner) != 1 || owner[0].Kind != "ValidatingWebhookConfiguration" {
		t.Errorf("the Secret outlives the release: owners %v", owner)
	}
	if _, found := stored.Data["ca.key"]; found || len(stored.Data) != 3 {
		t.Errorf("%d keys in the Secret, want certificate, key and authority", len(stored.Data))
	}
}

// TestPodSecurity: the namespace in which the pods of these tests run takes nothing that
// does not meet the Pod Security Standard restricted.
func TestPodSecurity(t *testing.T) {
	_, clients := install(t, nil)
	for _, component := range []string{"webhook", "controller"} {
		pods := kubelet.Pods(component)
		if len(pods) == 0 {
			t.Fatalf("no %s runs", component)
		}
		loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "loose"}, Spec: *pods[0].Object.Spec.DeepCopy()}
		loose.Spec.NodeName, loose.Spec.Containers[0].SecurityContext = "", nil
		_, err := clients.CoreV1().Pods(namespace).Create(t.Context(), loose, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`) {
			t.Errorf("%s without its security context: %v", component, err)
		}
	}
}

// quick are values with which a rotation takes seconds.
func quick() map[string]any {
	return failClosed(map[string]any{"certificates": map[string]any{"selfManaged": map[string]any{"waitAfterChange": "3s"}}})
}

// TestRotationUnderLoad replaces the certificate while claims are written: no request is
// lost, all replicas serve the new one, and the old authority is not trusted in the end.
func TestRotationUnderLoad(t *testing.T) {
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	before := secretData(t, clients)
	writes := startLoad(t, 50)
	writes.sent(t, 50)
	must(t, clients.CoreV1().Secrets(namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	eventually(t, "replaced", func(ctx context.Context) error { return replaced(ctx, c, clients, before) })
	for _, pod := range kubelet.Pods("webhook") {
		serves(t, pod, secretData(t, clients)["tls.crt"])
	}
	writes.sent(t, 50)
	writes.end(t, "a rotation")
}

// TestGarbageCertificate: garbage in the certificate's Secret stops no webhook. The controller
// replaces it, also if the authority is garbage, and no write is refused meanwhile.
func TestGarbageCertificate(t *testing.T) {
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	writes := startLoad(t, 50)
	writes.sent(t, 50)
	for _, patch := range []string{
		`{"stringData":{"tls.crt":"garbage"}}`,
		`{"stringData":{"tls.crt":"garbage","tls.key":"garbage","ca.crt":"garbage"}}`,
		`{"data":{"tls.crt":null,"tls.key":null,"ca.crt":null},"stringData":{"other":"garbage"}}`,
	} {
		before := secretData(t, clients)
		_, err := clients.CoreV1().Secrets(namespace).Patch(t.Context(), secret, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
		eventually(t, "the certificate is replaced after "+patch, func(ctx context.Context) error {
			_, err := clients.CoreV1().Secrets(namespace).Patch(ctx, secret, types.MergePatchType, []byte(`{"data":{"other":null}}`), metav1.PatchOptions{})
			if err != nil {
				return err
			}
			return replaced(ctx, c, clients, before)
		})
		eventually(t, "guarded after "+patch, func(ctx context.Context) error { return guarded(ctx, clients) })
		if n := len(kubelet.Pods("webhook")); n != 2 {
			t.Errorf("%d webhooks run, want 2", n)
		}
	}
	writes.sent(t, 50)
	writes.end(t, "garbage in the Secret")
}

// replaced is nil once another certificate is served, by an authority that is the only
// one and known to all webhooks.
func replaced(ctx context.Context, c client.Client, clients kubernetes.Interface, before map[string][]byte) error {
	stored, err := clients.CoreV1().Secrets(namespace).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now := stored.Data; len(now) != 3 || now["tls.crt"] == nil || bytes.Equal(now["tls.crt"], before["tls.crt"]) || bytes.Count(now["ca.crt"], []byte("BEGIN")) != 1 {
		return fmt.Errorf("keys %d, authorities %d, same certificate %t", len(now), bytes.Count(now["ca.crt"], []byte("BEGIN")), bytes.Equal(now["tls.crt"], before["tls.crt"]))
	}
	bundles, err := bundles(ctx, c)
	if err != nil {
		return err
	}
	for name, bundle := range bundles {
		if !bytes.Equal(bundle, stored.Data["ca.crt"]) {
			return fmt.Errorf("%s has another caBundle", name)
		}
	}
	return nil
}

// bundles are the caBundles by the names of the webhooks.
func bundles(ctx context.Context, c client.Client) (map[string][]byte, error) {
	found := map[string][]byte{}
	var validating admissionv1.ValidatingWebhookConfiguration
	var mutating admissionv1.MutatingWebhookConfiguration
	key := client.ObjectKey{Name: "dra-steward"}
	if err := errors.Join(c.Get(ctx, key, &validating), c.Get(ctx, key, &mutating)); err != nil {
		return nil, err
	}
	for _, w := range validating.Webhooks {
		found[w.Name] = w.ClientConfig.CABundle
	}
	for _, w := range mutating.Webhooks {
		found[w.Name] = w.ClientConfig.CABundle
	}
	return found, nil
}

func secretData(t *testing.T, clients kubernetes.Interface) map[string][]byte {
	t.Helper()
	stored, err := clients.CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{})
	must(t, err)
	return stored.Data
}

// serves checks that a pod presents a certificate.
func serves(t *testing.T, pod *installed.Pod, chain []byte) {
	t.Helper()
	connection, err := tls.Dial("tcp", net.JoinHostPort(pod.Address, "9443"), &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	defer connection.Close()
	pair, err := tls.X509KeyPair(chain, secretKey(t))
	must(t, err)
	if !connection.ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
		t.Errorf("%s serves another certificate", pod.Object.Name)
	}
}

func secretKey(t *testing.T) []byte {
	t.Helper()
	clients, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	return secretData(t, clients)["tls.key"]
}

// TestApplyAgainUnderLoad applies the chart again and again, with other values and
// without some of the webhooks, as a GitOps tool does on the server's side: caBundle
// stays, a webhook that comes later gets its own, one that goes away goes.
func TestApplyAgainUnderLoad(t *testing.T) {
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	before := secretData(t, clients)
	writes := startLoad(t, 50)
	for _, values := range []map[string]any{quick(), fewer(), quick()} {
		upgrading(t, func() {
			objects, err := installed.Apply(t.Context(), cluster, values, chart.Options{})
			must(t, err)
			waitReady(t, c)
			eventually(t, "every webhook has the authority", func(ctx context.Context) error { return allTrust(ctx, c, objects, before["ca.crt"]) })
		})
		writes.sent(t, 25)
	}
	writes.end(t, "three times applied, with two rolling updates")
	if !bytes.Equal(before["tls.crt"], secretData(t, clients)["tls.crt"]) {
		t.Error("the certificate was replaced without a request")
	}
}

// allTrust is nil if the configurations have the rendered webhooks, no other, and each
// the authority.
func allTrust(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, authority []byte) error {
	var want []string
	for _, object := range objects {
		hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, hook := range hooks {
			if hook, ok := hook.(map[string]any); ok {
				want = append(want, fmt.Sprint(hook["name"]))
			}
		}
	}
	got, err := bundles(ctx, c)
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d webhooks, %d are rendered", len(got), len(want))
	}
	for name, bundle := range got {
		if !slices.Contains(want, name) || !bytes.Equal(bundle, authority) {
			return fmt.Errorf("%s: rendered %t, %d bytes of caBundle", name, slices.Contains(want, name), len(bundle))
		}
	}
	return nil
}
