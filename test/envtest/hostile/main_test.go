package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dra-steward/dra-steward/test/chart"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

const namespace = "dra-steward"

var (
	cluster *envtest.Cluster
	refusal error
	kubelet *installed.Kubelet
)

func TestMain(m *testing.M) {
	older := map[string]bool{}
	for _, version := range olderVersions() {
		older[resourceapi.GroupName+"/"+version] = true
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(installed.Main(tests{m}, envtest.Options{Scheduler: true, DeviceTaintRules: true,
		FeatureGates:  map[string]bool{"DRAExtendedResource": true}, // off in 1.34 and 1.35
		RuntimeConfig: older}, func(c *envtest.Cluster, err error) { cluster, refusal = c, err }))
}

// tests end the pods before the control plane.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if kubelet == nil {
		return code
	}
	if err := kubelet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// campaign is the variable with the length of a campaign.
const campaign = "DRA_STEWARD_CAMPAIGN"

// lasts is a share of the length of a campaign, which is a minute by default.
func lasts(t *testing.T, share float64) time.Duration {
	t.Helper()
	all := time.Minute
	if text := os.Getenv(campaign); text != "" {
		var err error
		all, err = time.ParseDuration(text)
		must(t, err)
	}
	return time.Duration(share * float64(all))
}

// admin is the client of an administrator. It skips the test where there is no cluster.
func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	if refusal != nil {
		t.Skip(refusal)
	}
	return as(t, cluster.Config())
}

// install installs or upgrades the release with values, and waits until it runs and denies.
func install(t *testing.T, values map[string]any) kubernetes.Interface {
	t.Helper()
	clients := admin(t)
	if kubelet == nil {
		var err error
		kubelet, err = installed.StartKubelet(context.Background(), cluster, namespace, "node-1", "node-2")
		must(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, pod := range append(kubelet.Pods("webhook"), kubelet.Pods("controller")...) {
				t.Logf("%s:\n%s", pod.Object.Name, kubelet.Log(pod.Object.Name))
			}
		}
	})
	_, err := installed.Apply(t.Context(), cluster, values, chart.Options{})
	must(t, err)
	waitReady(t)
	eventually(t, "the policies deny", func(ctx context.Context) error {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}, Spec: violatingSpecs()["reserved key"]}
		_, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, claim, dryRun)
		if err == nil || !strings.Contains(err.Error(), "DRA-TOL-002") {
			return fmt.Errorf("a violation is answered with %v", err)
		}
		return nil
	})
	return clients
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// waitReady waits until all replicas are ready.
func waitReady(t *testing.T) {
	t.Helper()
	c, err := client.New(cluster.Config(), client.Options{})
	must(t, err)
	eventually(t, "the release runs", func(ctx context.Context) error { return installed.Available(ctx, c, namespace) })
}

// as returns the clients of a user, who writes as fast as the API server answers.
func as(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	return clients
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, errors.Join(err, last))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
