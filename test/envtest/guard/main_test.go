package guard_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

const (
	driver    = "gpu.example.com"
	node      = "node-1"
	namespace = metav1.NamespaceDefault
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m, envtest.Options{
		ControllerManager: true, Scheduler: true, Kubectl: true, Nodes: []string{node}, DeviceTaintRules: true,
		AuditPolicy: auditPolicy, FeatureGates: map[string]bool{"DRADeviceBindingConditions": true}, // off in 1.34 and 1.35
	}, func(c *envtest.Cluster) { cluster = c }))
}

// guarded starts dra-steward for one test and returns a client whose warnings the
// test sees.
func guarded(t *testing.T, values map[string]any) (*guard.Guard, kubernetes.Interface, *warnings) {
	t.Helper()
	return guardedWith(t, &proc.Log{}, values)
}

// guardedWith starts it with a log that the test reads.
func guardedWith(t *testing.T, log *proc.Log, values map[string]any) (*guard.Guard, kubernetes.Interface, *warnings) {
	t.Helper()
	g, err := guard.Start(t.Context(), cluster, guard.Options{Values: values, Log: log})
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of dra-steward:\n%s", log)
		}
	})
	config := cluster.Config()
	seen := &warnings{}
	config.WarningHandler = seen
	return g, client(t, config), seen
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// warnings collects what the API server warns about.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	texts := strings.Join(w.texts, "\n")
	w.texts = nil
	return texts
}

// eventually waits until check succeeds.
func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func wantDenied(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, should be denied with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func claim(name string, tolerations ...resourceapi.DeviceToleration) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:    "gpu",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver, Tolerations: tolerations},
		}}}},
	}
}

func slice(name string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	nodeName := node
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   driver,
			NodeName: &nodeName,
			Pool:     resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			Devices:  devices,
		},
	}
}

// gpus makes n devices without attributes.
func gpus(n int) (devices []resourceapi.Device) {
	for i := range n {
		devices = append(devices, resourceapi.Device{Name: "gpu-" + string(rune('a'+i))})
	}
	return devices
}
