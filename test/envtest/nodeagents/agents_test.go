package nodeagents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"golang.org/x/sync/errgroup"

	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/test/envtest"
)

const (
	driver   = "gpu.example.com"
	devices  = 8
	patience = 5 * time.Minute
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(runAsProgram())
	}
	os.Exit(envtest.Main(m, envtest.Options{DeviceTaintRules: true}, func(c *envtest.Cluster) { cluster = c }))
}

// traffic is what one agent has read and how many watches it has opened.
type traffic struct{ bytes, watches atomic.Int64 }

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper { return &counter{next, t} }

type counter struct {
	next    http.RoundTripper
	traffic *traffic
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") != "" {
		c.traffic.watches.Add(1)
	}
	response, err := c.next.RoundTrip(request)
	if err == nil {
		response.Body = &body{response.Body, c.traffic}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	traffic *traffic
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.traffic.bytes.Add(int64(n))
	return n, err
}

// TestAgents runs the agents of a few nodes, and then of many: what one of them asks of
// the API server stays the same, in whatever version the taint rules are served.
func TestAgents(t *testing.T) {
	many := 40
	if text := os.Getenv("NODE_AGENTS"); text != "" {
		many, _ = strconv.Atoi(text)
	}
	client, err := kubernetes.NewForConfig(loud(cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	few := max(many/10, 2)
	populate(t, client, 0, few)
	small := measure(t, client, few)
	populate(t, client, few, many)
	large := measure(t, client, many)
	t.Logf("%d nodes: %s per agent; %d nodes: %s per agent", few, small, many, large)
	if large.watches > small.watches || float64(large.bytes) > 1.1*float64(small.bytes) {
		t.Errorf("what an agent reads grows with the number of nodes: %s, %s", small, large)
	}
}

// loud has no limit of its own, for what only the test writes.
func loud(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// populate makes nodes with a slice, and on each a pod with an allocated claim.
func populate(t *testing.T, client kubernetes.Interface, from, to int) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := from; i < to; i++ {
		group.Go(func() error { return populateNode(ctx, client, nodeName(i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func populateNode(ctx context.Context, client kubernetes.Interface, name string) error {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "c", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: devices}}}}}}
	allocation := &resourceapi.AllocationResult{}
	for i := range devices {
		device := fmt.Sprintf("dev-%d", i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device})
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: name, Device: device})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: name, ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}, AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "main", Image: "example.com/app", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "c"}}}}}}}
	if _, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim, err = client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status.Allocation = allocation
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	_, err = client.ResourceV1().ResourceClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// share is what one agent has caused at most.
type share struct{ bytes, watches int64 }

func (s share) String() string { return fmt.Sprintf("%d bytes, %d watches", s.bytes, s.watches) }

// measure runs the view of an agent on each of n nodes until all know their claims and a
// new taint rule.
func measure(t *testing.T, client kubernetes.Interface, n int) (most share) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	traffics, worlds := make([]*traffic, n), make([]*nodeagent.NodeView, n)
	for i := range n {
		traffics[i] = &traffic{}
		config := cluster.Config()
		config.Wrap(traffics[i].wrap)
		world, err := nodeagent.NewNodeView(config, nodeName(i), logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		worlds[i] = world
		running.Go(func() { _ = world.Run(ctx) })
	}
	for i, world := range worlds {
		knows(t, world, nodeName(i))
	}
	for _, counted := range traffics {
		most.bytes, most.watches = max(most.bytes, counted.bytes.Load()), max(most.watches, counted.watches.Load())
	}
	taint(t, worlds, n)
	return most
}

// knows waits until an agent has its pod and claim.
func knows(t *testing.T, world *nodeagent.NodeView, name string) {
	t.Helper()
	var seen string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := world.Ready(); err != nil {
			seen = err.Error()
			return false, nil
		}
		pods := world.Pods()
		claims, _, err := world.Claims(ctx, pods, time.Now())
		seen = fmt.Sprint(len(pods), " pods, ", len(claims), " claims, ", err)
		return len(pods) == 1 && pods[0].Name == name && len(claims) == 1 && claims[0].Name == name, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; %s", name, err, seen)
	}
}

// taint makes a rule for a device of one node, in the version that is served, and waits
// until its agent shows it.
func taint(t *testing.T, worlds []*nodeagent.NodeView, n int) {
	t.Helper()
	name := fmt.Sprintf("rule-%d", n)
	defer createRule(t, name, nodeName(0))()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		for _, taint := range worlds[0].Taints(driver, nodeName(0), "dev-0") {
			if taint.Key == "example.com/"+name {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("the agent does not see the taint of a rule of %s: %v", cluster.DeviceTaintRules(), err)
	}
}
