package installed

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

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

const (
	namespace = "dra-steward"
	secret    = "dra-steward-certificate"
	driver    = "gpu.example.com"
)

var (
	cluster *envtest.Cluster
	refusal error
	kubelet *installed.Kubelet
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dra-steward-admission-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if apiServerClient, err = configureAdmission(dir); err != nil {
		panic(err)
	}
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		if err := installed.BuildEarlier(context.Background(), dir, reactionType); err != nil {
			panic(err)
		}
	}
	return installed.Main(tests{m}, envtest.Options{Scheduler: true, DeviceTaintRules: true,
		FeatureGates:  map[string]bool{"DRAExtendedResource": true}, // off in 1.34 and 1.35
		AuditPolicy:   auditPolicy,
		APIServerArgs: map[string][]string{"admission-control-config-file": {apiServerClient.file}},
	}, func(c *envtest.Cluster, err error) { cluster, refusal = c, err })
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

// auditPolicy writes down what the release's accounts do.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived] # a watch is known by the beginning of its answer
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:dra-steward"]
  - level: None
`

// needsCluster skips where there is none, and starts the kubelet once.
func needsCluster(t *testing.T) (client.Client, kubernetes.Interface) {
	t.Helper()
	if refusal != nil {
		t.Skip(refusal)
	}
	if kubelet == nil {
		var err error
		if kubelet, err = installed.StartKubelet(context.Background(), cluster, namespace, "node-1", "node-2"); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.Config(), client.Options{})
	must(t, err)
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c, clients
}

// install is helm upgrade --install, and waits until all of it runs.
func install(t *testing.T, values map[string]any) (client.Client, kubernetes.Interface) {
	t.Helper()
	c, clients := needsCluster(t)
	t.Cleanup(func() {
		if t.Failed() {
			logs(t)
		}
	})
	settle(t, c, clients, func() { newHelm(t, clients).release(t, values) })
	return c, clients
}

// settle waits until all of the release that do makes runs.
func settle(t *testing.T, c client.Client, clients kubernetes.Interface, do func()) {
	t.Helper()
	upgrading(t, func() {
		do()
		waitReady(t, c)
		eventually(t, "a controller leads", func(ctx context.Context) error { return leads(ctx, clients) })
	})
}

// leads is nil if one of the running controllers holds the Lease.
func leads(ctx context.Context, clients kubernetes.Interface) error {
	lease, err := clients.CoordinationV1().Leases(namespace).Get(ctx, "dra-steward-controller", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" {
		return errors.New("the Lease has no holder")
	}
	if pods := kubelet.All("controller"); len(pods) == 1 && strings.Contains(kubelet.Log(pods[0].Object.Name), `"leading"`) {
		return nil
	}
	return errors.New("the controller that runs does not lead yet")
}

func waitReady(t *testing.T, c client.Client) {
	t.Helper()
	eventually(t, "the release runs", func(ctx context.Context) error {
		if err := installed.Available(ctx, c, namespace); err != nil {
			return err
		}
		return kubelet.UpToDate(ctx)
	})
}

func logs(t *testing.T) {
	for _, component := range []string{"webhook", "controller"} {
		for _, pod := range kubelet.All(component) {
			t.Logf("%s at %s:\n%s", pod.Object.Name, pod.Address, kubelet.Log(pod.Object.Name))
		}
	}
}

// eventually waits until check has nothing to say, in a cleanup too.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || last == nil || ctx.Err() == nil { // what is wrong, not that the time is up
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// badClaim is one that the webhook denies: 17 tolerations.
func badClaim() *resourceapi.ResourceClaim {
	claim := goodClaim()
	for i := range 17 {
		claim.Spec.Devices.Requests[0].Exactly.Tolerations = append(claim.Spec.Devices.Requests[0].Exactly.Tolerations,
			resourceapi.DeviceToleration{Key: "example.com/fault-" + string(rune('a'+i)), Operator: resourceapi.DeviceTolerationOpExists,
				Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	return claim
}

func goodClaim() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: metav1.NamespaceDefault},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver}}}}},
	}
}

// guarded says whether the API server asks the webhook: what it must deny is denied.
func guarded(ctx context.Context, clients kubernetes.Interface) error {
	_, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, badClaim(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return errors.New("a bad claim passes")
	case !strings.Contains(err.Error(), "claims.validate.dra-steward.io"):
		return err
	}
	return nil
}
