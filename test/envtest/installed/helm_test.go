package installed

import (
	"context"
	"errors"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	helmdriver "helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/chart"
)

const name = "dra-steward"

// A helm is helm with the release of these tests.
type helm struct{ config *action.Configuration }

func newHelm(t *testing.T, clients kubernetes.Interface) helm {
	t.Helper()
	_, err := clients.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		_, err = clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, metav1.CreateOptions{})
	}
	must(t, err)
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig, in := cluster.Kubeconfig(), namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &in
	h := helm{&action.Configuration{}}
	must(t, h.config.Init(flags, namespace, "secret", func(string, ...any) {}))
	return h
}

// release is helm upgrade --install; it returns the revision.
func (h helm) release(t *testing.T, values map[string]any) int {
	t.Helper()
	c, err := chart.Load()
	must(t, err)
	return h.releaseOf(t, c, values)
}

// releaseOf releases another chart.
func (h helm) releaseOf(t *testing.T, c *helmchart.Chart, values map[string]any) int {
	t.Helper()
	history := action.NewHistory(h.config)
	if _, err := history.Run(name); errors.Is(err, helmdriver.ErrReleaseNotFound) {
		install := action.NewInstall(h.config)
		install.ReleaseName, install.Namespace, install.Timeout = name, namespace, time.Minute
		released, err := install.RunWithContext(context.WithoutCancel(t.Context()), c, values)
		must(t, err)
		return released.Version
	}
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.ResetValues = namespace, time.Minute, true
	released, err := upgrade.RunWithContext(context.WithoutCancel(t.Context()), name, c, values)
	must(t, err)
	return released.Version
}

func (h helm) rollback(t *testing.T, revision int) {
	t.Helper()
	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.Timeout = revision, time.Minute
	must(t, rollback.Run(name))
}

// fewer leaves out one of the webhooks.
func fewer() map[string]any {
	values := quick()
	values["policies"] = map[string]any{"configMaps": false}
	return values
}

// TestUpgradeAndRollbackUnderLoad: neither takes caBundle away, no request is lost, and
// the certificate stays.
func TestUpgradeAndRollbackUnderLoad(t *testing.T) {
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	h := newHelm(t, clients)
	first := h.release(t, quick())
	waitReady(t, c)
	before := secretData(t, clients)
	writes := startLoad(t, 50)
	for _, step := range []struct {
		what   string
		do     func()
		values map[string]any
	}{
		{"an upgrade to fewer webhooks", func() { h.release(t, fewer()) }, fewer()},
		{"a rollback", func() { h.rollback(t, first) }, quick()},
	} {
		upgrading(t, func() {
			objects, err := chart.Render(step.values, chart.Options{KubeVersion: cluster.Version()})
			must(t, err)
			step.do()
			waitReady(t, c)
			eventually(t, step.what, func(ctx context.Context) error { return allTrust(ctx, c, objects, before["ca.crt"]) })
		})
		writes.sent(t, 25)
	}
	writes.end(t, "an upgrade and a rollback")
	if string(before["tls.crt"]) != string(secretData(t, clients)["tls.crt"]) {
		t.Error("the certificate was replaced without a request")
	}
}

// A window is a time in which pods of two revisions run, with the rights of one.
type window struct{ from, to time.Time }

var windows []window

func upgrading(t *testing.T, do func()) {
	t.Helper()
	from := time.Now()
	do()
	windows = append(windows, window{from, time.Now().Add(time.Second)})
}
