package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// A stubKubelet answers with pods.
type stubKubelet struct {
	v1.UnimplementedPodResourcesListerServer
	pods        []*v1.PodResources
	allocatable *v1.AllocatableResourcesResponse
}

func (s *stubKubelet) GetAllocatableResources(context.Context, *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	return s.allocatable, nil
}

func (s *stubKubelet) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	return &v1.ListPodResourcesResponse{PodResources: s.pods}, nil
}

// listen serves at a socket until the test ends.
func listen(t *testing.T, server *grpc.Server) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

// stuckPod is a pod as in kubernetes#141335: a driver fails to prepare one of its claims, and
// with each attempt the kubelet adds the eight devices of the other claim again. In 1.37,
// each device has the CDI ids of those before it, too.
func stuckPod(bytes int) *v1.PodResources {
	claim := &v1.DynamicResource{ClaimNamespace: "ml", ClaimName: "gpus"}
	var ids []*v1.CDIDevice
	for size := 0; size < bytes; {
		for i := range 8 {
			ids = append(ids, &v1.CDIDevice{Name: fmt.Sprintf("k8s.gpu.example.com/claim=7f0e6f0a-3f0f-4b44-9f13-000000000000-gpu-%d", i)})
			claim.ClaimResources = append(claim.ClaimResources, &v1.ClaimResource{
				DriverName: gpuDriver, PoolName: "node-1", DeviceName: fmt.Sprintf("gpu-%d", i), CdiDevices: ids[:len(ids):len(ids)]})
			size += 80 * len(ids)
		}
	}
	return &v1.PodResources{Namespace: "ml", Name: "stuck", Containers: []*v1.ContainerResources{{Name: "main", DynamicResources: []*v1.DynamicResource{claim}}}}
}

// TestLargeAnswer: an answer of 17.8 MB, as it was measured, does not blind the agent. It is a
// finding on the pod that causes it, and what the agent serves is small again.
func TestLargeAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		bytes            int
		fails            bool
		finding, message string
	}{
		"ordinary":  {1 << 20, false, "", ""},
		"measured":  {17_800_000, false, "podresources-large stuck", "most of it about this pod"},
		"unbounded": {40 << 20, true, "podresources-large ", "more than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			kubelet := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
			v1.RegisterPodResourcesListerServer(kubelet, &stubKubelet{pods: []*v1.PodResources{stuckPod(test.bytes), {Namespace: "ml", Name: "other"}}})
			client := podresources.New(podresources.Options{Socket: listen(t, kubelet)})
			defer client.Close()
			listing, err := client.List(t.Context(), time.Now())
			if tooLarge := errors.Is(err, podresources.ErrTooLarge); tooLarge != test.fails || !tooLarge && err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "stuck", UID: "stuck"}}
			in := Input{TooLarge: test.fails, Input: podresources.Input{Listing: listing, Pods: []*corev1.Pod{pod}}, Check: check}
			found := Check(in, nil)
			if got := strings.Join(kinds(found), ","); got != test.finding || len(found) > 0 && !strings.Contains(found[0].Message, test.message) {
				t.Errorf("found %v, want %s", found, test.finding)
			}
			nodeView, err := NewNodeView(&rest.Config{Host: "127.0.0.1:1"}, "node-1", logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			report := &Observation{Sources: map[string]bool{}}
			NewAgent(Options{Kubelet: client, NodeView: nodeView, CDI: cdi.Options{Dirs: []string{t.TempDir()}}, Log: logr.Discard()}).read(t.Context(), time.Now(), report)
			if unread := report.Bytes > 32<<20; unread != test.fails || !unread && report.Bytes != listing.Bytes {
				t.Errorf("reports %d bytes", report.Bytes)
			}
			if !test.fails {
				checkServed(t, podresources.Input{Listing: listing})
			}
		})
	}
}

// checkServed reads the corrected answer with a client that has gRPC's default limit.
func checkServed(t *testing.T, in podresources.Input) {
	t.Helper()
	in.Listing.Complete = true
	socket := listen(t, newPodResourcesServer(&podresources.Server{Read: func(context.Context) (podresources.Input, error) { return in, nil }}))
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := v1.NewPodResourcesListerClient(conn).List(t.Context(), &v1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range answer.GetPodResources()[0].GetContainers()[0].GetDynamicResources() {
		if len(d.GetClaimResources()) != 8 {
			t.Errorf("%d devices, want 8", len(d.GetClaimResources()))
		}
	}
}

// TestServedSocketIsLimited: a noisy client of our socket is rejected as by the kubelet.
func TestServedSocketIsLimited(t *testing.T) {
	in := podresources.Input{Listing: &podresources.Listing{Complete: true}}
	reads := 0
	socket := listen(t, newPodResourcesServer(&podresources.Server{Read: func(context.Context) (podresources.Input, error) { reads++; return in, nil }}))
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rejected := make(chan bool)
	for range 100 {
		go func() {
			_, err := v1.NewPodResourcesListerClient(conn).List(t.Context(), &v1.ListPodResourcesRequest{})
			rejected <- status.Code(err) == codes.ResourceExhausted
		}()
	}
	n := 0
	for range 100 {
		if <-rejected {
			n++
		}
	}
	if n < 50 || n > 90 {
		t.Errorf("%d of 100 calls at once are rejected, want those beyond the burst of 10", n)
	}
	if reads > 10 {
		t.Errorf("%d reads of the kubelet for 100 calls", reads)
	}
}

// TestServedSocket: only root may use the socket, and the kubelet's answer about allocatable resources passes
// through it as it is.
func TestServedSocket(t *testing.T) {
	want := &v1.AllocatableResourcesResponse{CpuIds: []int64{0, 1}, Devices: []*v1.ContainerDevices{{ResourceName: "example.com/fpga", DeviceIds: []string{"fpga-0"}}}}
	kubelet := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(kubelet, &stubKubelet{allocatable: want})
	client := podresources.New(podresources.Options{Socket: listen(t, kubelet)})
	defer client.Close()
	socket := filepath.Join(t.TempDir(), "served")
	served := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- servePodResources(ctx, socket, nil, NewAgent(Options{Kubelet: client})) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := v1.NewPodResourcesListerClient(conn).GetAllocatableResources(t.Context(), &v1.AllocatableResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want the mode 0600", info, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestCheckServedDevices(t *testing.T) {
	for resource, attribute := range map[string]string{"nvidia.com/gpu": "uuid", "gpu": "gpu.nvidia.com/uuid", "nvidia.com/gpu!": "gpu.nvidia.com/uuid"} {
		if err := checkServedDevices(map[string]string{resource: attribute}); err == nil {
			t.Errorf("%s=%s is admitted", resource, attribute)
		}
	}
	if err := checkServedDevices(map[string]string{"nvidia.com/gpu": "gpu.nvidia.com/uuid"}); err != nil {
		t.Error(err)
	}
}
