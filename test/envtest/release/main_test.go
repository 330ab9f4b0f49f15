// Package release_test runs what a person does with the chart, install to uninstall,
// through the packages that helm is made of, on a real control plane.
package release_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
)

const (
	name = "dra-steward"
	// previous is the chart of commit 1d0689c, packaged as version 0.0.1: git archive
	// 1d0689c charts/dra-steward. After a release it is the chart of that release.
	previous = "testdata/dra-steward-0.0.1.tgz"
	pem      = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
)

type values = map[string]any

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	options := envtest.Options{ControllerManager: true, Kubectl: true, DeviceTaintRules: true}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}

// taintRules is the kind of DeviceTaintRules in the version that the minor under test has.
func taintRules() schema.GroupVersionKind {
	return cluster.DeviceTaintRules().GroupVersion().WithKind("DeviceTaintRule")
}

// with returns the values that every release here needs, and more.
func with(more values) values {
	v := values{"certificates": values{"mode": "provided", "existingSecret": "dra-steward-tls", "caBundle": pem}}
	for key, value := range more {
		v[key] = value
	}
	return v
}

// withScheduler renders the scheduler for the minor under test as well, for which its image may
// not be built: what is tested here is that the API server takes the objects.
func withScheduler(v values) values {
	v["scheduler"].(values)["kubernetesVersions"] = ">=1.34.0-0"
	return v
}

// A helm is helm with one namespace.
type helm struct {
	t         *testing.T
	namespace string
	config    *action.Configuration
	client    client.Client
}

func newHelm(t *testing.T, namespace string) helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig := cluster.Kubeconfig()
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	config := &action.Configuration{}
	if err := config.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return helm{t, namespace, config, c}
}

// current is the chart that ships.
func current(t *testing.T) *helmchart.Chart {
	t.Helper()
	c, err := chart.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func load(t *testing.T, file string) *helmchart.Chart {
	t.Helper()
	c, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (h helm) install(c *helmchart.Chart, v values) (*release.Release, error) {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, h.namespace, true
	install.Timeout = time.Minute
	return install.RunWithContext(h.t.Context(), c, v)
}

func (h helm) upgrade(c *helmchart.Chart, v values) (*release.Release, error) {
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout = h.namespace, time.Minute
	return upgrade.RunWithContext(h.t.Context(), name, c, v)
}

func (h helm) rollback(revision int) error {
	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.Timeout = revision, time.Minute
	return rollback.Run(name)
}

func (h helm) uninstall() (*release.UninstallReleaseResponse, error) {
	uninstall := action.NewUninstall(h.config)
	uninstall.Timeout = 2 * time.Minute
	return uninstall.Run(name)
}

func (h helm) must(_ any, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// objects are those of a manifest as helm stores it.
func objects(t *testing.T, manifest string) (all []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document+"\n"), &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.Object != nil {
			all = append(all, object)
		}
	}
	return all
}

// stored returns what the API server has of an object; nil if it has none.
func (h helm) stored(object *unstructured.Unstructured) *unstructured.Unstructured {
	h.t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(object.GroupVersionKind())
	err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(object), got)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
