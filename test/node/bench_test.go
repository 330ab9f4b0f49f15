package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	kubeletserver "k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"

	steward "github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// As many pods as a kubelet runs by default, with eight devices each.
const (
	fullPods    = 110
	fullDevices = 8
	fullNode    = "full"
)

// fullProviders answer as a kubelet with these pods does, faults included.
type fullProviders struct{ providers }

func (fullProviders) GetDynamicResources(_ klog.Logger, pod *corev1.Pod, _ *corev1.Container) []*v1.DynamicResource {
	resource := &v1.DynamicResource{ClaimName: pod.Name, ClaimNamespace: pod.Namespace}
	var ids []*v1.CDIDevice
	for i := range fullDevices {
		device := fmt.Sprintf("%s-%d", pod.Name, i)
		ids = append(ids, &v1.CDIDevice{Name: cdiKind + "=" + device})
		resource.ClaimResources = append(resource.ClaimResources, &v1.ClaimResource{DriverName: driverName, PoolName: fullNode, DeviceName: device, CdiDevices: ids[:len(ids):len(ids)]})
	}
	return []*v1.DynamicResource{resource}
}

// fullAgent is an agent on a node with all of that: a real API server, the kubelet's own
// server and checkpoint, and a specification per claim.
func fullAgent(b *testing.B) (*steward.Agent, *prometheus.Registry) {
	if refusal != "" {
		b.Skip(refusal)
	}
	config := rest.CopyConfig(inside.cluster.Config())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	dir := tempDir(b)
	pods, prepared := makeFull(b, client, filepath.Join(dir, "cdi"))
	checkpoint, err := state.NewCheckpoint(prepared)
	if err != nil {
		b.Fatal(err)
	}
	content, err := checkpoint.MarshalCheckpoint()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "dra_manager_state")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		b.Fatal(err)
	}
	socket := filepath.Join(dir, "kubelet.sock")
	serveFull(b, socket, pods)
	world, err := steward.NewNodeView(config, fullNode, logr.Discard())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- world.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		<-ended
	})
	kubelet := podresources.New(podresources.Options{Socket: socket})
	b.Cleanup(func() { _ = kubelet.Close() })
	registry := prometheus.NewRegistry()
	metrics, err := steward.NewMetrics(registry, steward.MetricsOptions{Calls: kubelet.Calls})
	if err != nil {
		b.Fatal(err)
	}
	agent := steward.NewAgent(steward.Options{NodeView: world, Kubelet: kubelet, Checkpoint: file, CDI: cdi.Options{Dirs: []string{filepath.Join(dir, "cdi")}}, Metrics: metrics})
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return world.Ready() == nil && len(world.Pods()) == fullPods, nil
	})
	if err != nil {
		b.Fatalf("%v: %v, %d pods", err, world.Ready(), len(world.Pods()))
	}
	if report := agent.Collect(ctx, time.Now()); len(report.Holdings) != fullPods*fullDevices || len(report.Findings) > 0 {
		b.Fatalf("%d holdings, %d findings", len(report.Holdings), len(report.Findings))
	}
	return agent, registry
}

func serveFull(b *testing.B, socket string, pods []*corev1.Pod) {
	p := fullProviders{providers{pods}}
	server := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(server, kubeletserver.NewV1PodResourcesServer(b.Context(),
		kubeletserver.PodResourcesProviders{Pods: p, Devices: p, Cpus: p, Memory: p, DynamicResources: p}))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
}

// makeFull makes pods and claims in the API server, and their specifications.
func makeFull(b *testing.B, client kubernetes.Interface, cdiDir string) (pods []*corev1.Pod, prepared state.ClaimInfoStateList) {
	ctx := b.Context()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(os.MkdirAll(cdiDir, 0o755))
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fullNode}}, metav1.CreateOptions{})
	must(err)
	b.Cleanup(func() {
		ctx, namespace := context.Background(), "default"
		_ = client.CoreV1().Nodes().Delete(ctx, fullNode, metav1.DeleteOptions{})
		_ = client.CoreV1().Pods(namespace).DeleteCollection(ctx, byForce, metav1.ListOptions{})
		_ = client.ResourceV1().ResourceClaims(namespace).DeleteCollection(ctx, byForce, metav1.ListOptions{})
	})
	for i := range fullPods {
		name := fmt.Sprintf("full-%d", i)
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(exactly("r", fullDevices))}
		claim, err := client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{})
		must(err)
		p := pod("default", name, named(name), container("main", corev1.ResourceClaim{Name: "c"}))
		p.Spec.NodeName = fullNode
		p, err = client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		must(err)
		allocation, devices, specs := &resourceapi.AllocationResult{}, []state.Device{}, []map[string]any{}
		for d := range fullDevices {
			device := fmt.Sprintf("%s-%d", name, d)
			allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: driverName, Pool: fullNode, Device: device})
			devices = append(devices, state.Device{PoolName: fullNode, DeviceName: device, RequestNames: []string{"r"}, CDIDeviceIDs: []string{cdiKind + "=" + device}})
			specs = append(specs, map[string]any{"name": device, "containerEdits": map[string]any{"env": []string{"A=B"}}})
		}
		claim.Status.Allocation = allocation
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: p.UID}}
		_, err = client.ResourceV1().ResourceClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		must(err)
		content, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": cdiKind, "devices": specs})
		must(err)
		must(os.WriteFile(filepath.Join(cdiDir, name+".json"), content, 0o600))
		pods = append(pods, p)
		prepared = append(prepared, state.ClaimInfoState{ClaimUID: claim.UID, ClaimName: name, Namespace: "default", PodUIDs: sets.New(string(p.UID)),
			DriverState: map[string]state.DriverState{driverName: {Devices: devices}}})
	}
	return pods, prepared
}

// BenchmarkLook is one look at a full node: all sources read and judged. An agent takes one
// every 15 s, and one when something has changed, but not more than one a second.
func BenchmarkLook(b *testing.B) {
	agent, _ := fullAgent(b)
	b.ReportAllocs()
	for b.Loop() {
		agent.Collect(b.Context(), time.Now())
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MB")
}

// BenchmarkScrape is one answer to /metrics on a full node.
func BenchmarkScrape(b *testing.B) {
	_, registry := fullAgent(b)
	var written countingWriter
	b.ReportAllocs()
	for b.Loop() {
		written = 0
		families, err := registry.Gather()
		if err != nil {
			b.Fatal(err)
		}
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&written, family); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(written), "bytes/scrape")
}

type countingWriter int

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}
