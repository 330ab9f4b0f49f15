package node

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	kubeletserver "k8s.io/kubernetes/pkg/kubelet/apis/podresources"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// providers are what the kubelet's server asks; all pods have one container with one
// device of a claim.
type providers struct{ pods []*corev1.Pod }

func (p providers) GetActivePods() []*corev1.Pod { return p.pods }
func (p providers) GetPods() []*corev1.Pod       { return p.pods }
func (p providers) GetPodByName(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range p.pods {
		if pod.Name == name && pod.Namespace == namespace {
			return pod, true
		}
	}
	return nil, false
}
func (providers) UpdateAllocatedDevices(klog.Logger)                       {}
func (providers) GetDevices(string, string) []*v1.ContainerDevices         { return nil }
func (providers) GetAllocatableDevices(klog.Logger) []*v1.ContainerDevices { return nil }
func (providers) GetCPUs(*corev1.Pod, *corev1.Container) []int64           { return []int64{1} }
func (providers) GetPodCPUs(string) []int64                                { return nil }
func (providers) GetAllocatableCPUs() []int64                              { return []int64{0, 1} }
func (providers) GetPodMemory(klog.Logger, string) []*v1.ContainerMemory   { return nil }
func (providers) GetAllocatableMemory(klog.Logger) []*v1.ContainerMemory   { return nil }
func (providers) GetMemory(klog.Logger, *corev1.Pod, *corev1.Container) []*v1.ContainerMemory {
	return nil
}
func (providers) GetDynamicResources(_ klog.Logger, pod *corev1.Pod, _ *corev1.Container) []*v1.DynamicResource {
	share := "share-1"
	return []*v1.DynamicResource{{ClaimName: pod.Name, ClaimNamespace: pod.Namespace, ClaimResources: []*v1.ClaimResource{
		{DriverName: driverName, PoolName: "p", DeviceName: "d", ShareId: &share},
	}}}
}

// startServer starts the kubelet's own server, which renames its socket into place.
func startServer(t *testing.T, socket string, pods ...*corev1.Pod) *grpc.Server {
	t.Helper()
	p := providers{pods}
	server := grpc.NewServer(apisgrpc.WithRateLimiter(t.Context(), "podresources", 100, 10))
	v1.RegisterPodResourcesListerServer(server, kubeletserver.NewV1PodResourcesServer(t.Context(),
		kubeletserver.PodResourcesProviders{Pods: p, Devices: p, Cpus: p, Memory: p, DynamicResources: p}))
	temporary := socket + ".tmp"
	listener, err := net.Listen("unix", temporary)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Rename(temporary, socket); err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server
}

// TestClient asks the kubelet's own server.
func TestClient(t *testing.T) {
	socket := filepath.Join(tempDir(t), "kubelet.sock")
	client := podresources.New(podresources.Options{Socket: socket})
	defer client.Close()
	if _, err := client.List(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "is it running, and is the folder mounted?") {
		t.Errorf("without a socket: %v", err)
	}
	first := startServer(t, socket, pod("default", "one", nil, container("main")))
	listing, err := client.List(t.Context(), time.Now())
	if err != nil || len(listing.Pods) != 1 || listing.Complete {
		t.Fatalf("%+v, %v", listing, err)
	}
	if id := listing.Pods[0].GetContainers()[0].GetDynamicResources()[0].GetClaimResources()[0].GetShareId(); id != "share-1" {
		t.Errorf("share id is %q", id)
	}
	if later, err := client.List(t.Context(), time.Now().Add(time.Minute)); err != nil || !later.Complete {
		t.Errorf("%+v, %v; want it complete after a minute", later, err)
	}
	if one, err := client.Get(t.Context(), "default", "one"); err != nil || one.GetName() != "one" {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := client.Get(t.Context(), "default", "two"); err == nil || !strings.Contains(err.Error(), "pod two in namespace default not found") {
		t.Errorf("%v, want the kubelet's error", err)
	}
	if all, err := client.Allocatable(t.Context()); err != nil || len(all.GetCpuIds()) != 2 {
		t.Errorf("%v, %v", all, err)
	}

	// The new kubelet's socket counts at once, even while the old one still answers.
	startServer(t, socket)
	again, err := client.List(t.Context(), time.Now())
	if err != nil || len(again.Pods) != 0 || again.Complete || again.Started.Before(listing.Started) {
		t.Errorf("%+v, %v; want the new kubelet, which knows no pods yet", again, err)
	}
	first.Stop()
	if _, err := client.List(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
}

// TestRateLimit: calls that the kubelet rejects are made again, later.
func TestRateLimit(t *testing.T) {
	socket := filepath.Join(tempDir(t), "kubelet.sock")
	startServer(t, socket)
	client := podresources.New(podresources.Options{Socket: socket})
	defer client.Close()
	for range 60 {
		if _, err := client.List(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
	}
	if sent, rejected := client.Calls(); rejected == 0 || sent-rejected != 60 {
		t.Errorf("%d sent, %d rejected; want rejected ones, and 60 answered", sent, rejected)
	}
}
