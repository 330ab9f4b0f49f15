package certmanager

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cmscheme "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dra-steward/dra-steward/test/envtest"
)

const namespace = "dra-steward"

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	if err := cmscheme.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	os.Exit(envtest.Main(m, envtest.Options{}, func(c *envtest.Cluster) { cluster = c }))
}

// definitions are the folder of cert-manager's CustomResourceDefinitions, in its module.
func definitions(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds")
}

// certManager installs cert-manager: its definitions, its controllers for Certificates and
// for the two kinds of Issuers that the chart uses, and its injector.
func certManager(t *testing.T) client.Client {
	t.Helper()
	_, err := ctrlenvtest.InstallCRDs(cluster.Config(), ctrlenvtest.CRDInstallOptions{Paths: []string{definitions(t)}, ErrorIfPathMissing: true})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: cluster.Kubeconfig(),
		KubernetesAPIQPS: 100, KubernetesAPIBurst: 200, IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system"}})
	must(t, err)
	var running []chan error
	for _, name := range []string{issuers.ControllerName, trigger.ControllerName, requestmanager.ControllerName, keymanager.ControllerName,
		issuing.ControllerName, readiness.ControllerName, revisionmanager.ControllerName, approver.ControllerName, ca.CRControllerName, selfsigned.CRControllerName} {
		constructor := controller.Known()[name]
		if constructor == nil {
			t.Fatalf("cert-manager has no controller %s", name)
		}
		one, err := constructor(factory)
		must(t, err)
		ended := make(chan error, 1)
		running = append(running, ended)
		go func() { ended <- one.Run(1, ctx) }()
	}
	shared, err := factory.Build()
	must(t, err)
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	running = append(running, injector(t, ctx))
	t.Cleanup(func() {
		stop()
		for _, ended := range running {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	unlimited := cluster.Config()
	unlimited.QPS = -1
	c, err := client.New(unlimited, client.Options{})
	must(t, err)
	return c
}

// injector runs cert-manager's CA injector for webhook configurations.
func injector(t *testing.T, ctx context.Context) chan error {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	config := cluster.Config()
	config.UserAgent = "cert-manager-cainjector/v1.21.2" // its field manager is made of it
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	must(t, cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: map[string]bool{
		cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true}}))
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	return ended
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check has nothing to say.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}
