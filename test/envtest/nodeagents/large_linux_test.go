package nodeagents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// The memory limit of the agent in the chart, what its templates make of it for the Go runtime, and the
// largest answer that the agent reads.
const (
	agentMemory   = 256 << 20
	agentGoMemory = "256000000B"
	largestAnswer = 32 << 20
)

// A grownKubelet answers about one pod, as in kubernetes#141335: each attempt to prepare a claim of the pod has
// added the devices of another one again. A real kubelet takes hours until its answer has this size.
type grownKubelet struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	answer *podresourcesapi.ListPodResourcesResponse
}

func (k *grownKubelet) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	return k.answer, nil
}

// grown is an answer of nearly 32 MiB about a pod of populateNode. Drivers of networks have no CDI ids; those of
// the others accumulate.
func grown(name string, cdi bool) *podresourcesapi.ListPodResourcesResponse {
	claim := &podresourcesapi.DynamicResource{ClaimNamespace: "default", ClaimName: name}
	answer := &podresourcesapi.ListPodResourcesResponse{PodResources: []*podresourcesapi.PodResources{{Namespace: "default", Name: name,
		Containers: []*podresourcesapi.ContainerResources{{Name: "main", DynamicResources: []*podresourcesapi.DynamicResource{claim}}}}}}
	var ids []*podresourcesapi.CDIDevice
	for size := 0; ; {
		for i := range devices {
			device := &podresourcesapi.ClaimResource{DriverName: driver, PoolName: name, DeviceName: fmt.Sprintf("dev-%d", i)}
			if cdi {
				ids = append(ids, &podresourcesapi.CDIDevice{Name: fmt.Sprintf("%s/device=7f0e6f0a-3f0f-4b44-9f13-000000000000-dev-%d", driver, i)})
				device.CdiDevices = ids[:len(ids):len(ids)]
			}
			if size += 1 + protowire.SizeBytes(proto.Size(device)); size > largestAnswer-4096 {
				return answer
			}
			claim.ClaimResources = append(claim.ClaimResources, device)
		}
	}
}

// TestLargeAnswerInMemory: an agent with the memory of the chart goes on reading an answer of 32 MiB, names
// it, and serves the devices once.
func TestLargeAnswerInMemory(t *testing.T) {
	client, err := kubernetes.NewForConfig(loud(cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	for name, cdi := range map[string]bool{"large": true, "large-without-ids": false} {
		t.Run(name, func(t *testing.T) {
			if err := populateNode(t.Context(), client, name); err != nil {
				t.Fatal(err)
			}
			answer := grown(name, cdi)
			if size := proto.Size(answer); size > largestAnswer || size < largestAnswer-1<<20 {
				t.Fatalf("the answer has %d bytes", size)
			}
			a := startLimited(t, name, serveGrown(t, answer))
			a.reads(t, 5)
			a.serves(t)
			if findings := a.metrics(`dra_steward_node_findings{kind="podresources-large"}`); len(findings) != 1 || !strings.HasSuffix(findings[0], " 1") {
				t.Errorf("findings: %v", findings)
			}
			if holders := a.metrics("dra_steward_node_device_holder_info{"); len(holders) != devices {
				t.Errorf("%d holders, want %d: %v", len(holders), devices, holders)
			}
			var events *corev1.EventList
			// It is written while the agent goes on.
			err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (_ bool, err error) {
				events, err = client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=PodResourcesLarge,involvedObject.name=" + name})
				return err == nil && len(events.Items) > 0, err
			})
			if err != nil || len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, "kubernetes#141335") {
				t.Errorf("events: %+v, %v", events, err)
			}
			// Pages of the program's file can be read again, the kernel takes them back.
			peak := memory(t, a.pid, "VmHWM") - memory(t, a.pid, "RssFile")
			t.Logf("%d claim resources, %d MiB: the agent has %d MiB at the peak, limit %d MiB",
				len(answer.PodResources[0].Containers[0].DynamicResources[0].ClaimResources), proto.Size(answer)>>20, peak>>20, agentMemory>>20)
			if peak >= agentMemory {
				t.Errorf("peak %d MiB, limit %d MiB", peak>>20, agentMemory>>20)
			}
		})
	}
}

func serveGrown(t *testing.T, answer *podresourcesapi.ListPodResourcesResponse) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	// A kubelet that has grown so far was not started just now.
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(socket, before, before); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	podresourcesapi.RegisterPodResourcesListerServer(server, &grownKubelet{answer: answer})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

// A limitedAgent is a node agent as a process of its own, which the kernel ends if it needs more memory: by a
// control group, else by the limit of its data segment.
type limitedAgent struct {
	pid             int
	address, socket string
	out             *log
	ended           chan struct{}
}

func startLimited(t *testing.T, node, kubelet string) *limitedAgent {
	t.Helper()
	address, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	a := &limitedAgent{address: address, socket: filepath.Join(t.TempDir(), "s"), out: &log{}, ended: make(chan struct{})}
	command := testmemory.Command(t, agentMemory, os.Args[0], "node", "watch", "--node-name", node, "--kubeconfig", cluster.Kubeconfig(),
		"--pod-resources-socket", kubelet, "--serve-socket", a.socket, "--health-address", "", "--metrics-address", a.address, "--interval", "100ms")
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), asProgram+"=1", "GOMEMLIMIT="+agentGoMemory), a.out, a.out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	a.pid = command.Process.Pid
	var reason error
	go func() { reason = command.Wait(); close(a.ended) }()
	t.Cleanup(func() {
		select {
		case <-a.ended:
			t.Errorf("the agent has ended: %v\n%s", reason, a.out)
		default:
			_ = command.Process.Signal(syscall.SIGTERM)
			<-a.ended
		}
	})
	return a
}

// metrics returns the lines that begin with a text.
func (a *limitedAgent) metrics(begin string) (lines []string) {
	response, err := http.Get("http://" + a.address + "/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, begin) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// reads waits until the agent has read the answer again and again.
func (a *limitedAgent) reads(t *testing.T, times int) {
	t.Helper()
	looks := map[string]bool{}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case <-a.ended: // its cleanup says why
			return false, errors.New("the agent has ended")
		default:
		}
		if len(a.metrics(`dra_steward_node_source_up{source="podresources"} 1`)) == 1 {
			looks[strings.Join(a.metrics("dra_steward_node_look_timestamp_seconds "), "")] = true
		}
		return len(looks) >= times, nil
	})
	if err != nil {
		t.Fatalf("%d looks: %v", len(looks), err)
	}
}

// serves asks the agent's own socket meanwhile.
func (a *limitedAgent) serves(t *testing.T) {
	t.Helper()
	client := podresources.New(podresources.Options{Socket: a.socket})
	defer client.Close()
	for range 5 {
		listing, err := client.List(t.Context(), time.Now())
		if err != nil || len(listing.Pods) != 1 {
			t.Fatalf("%+v, %v", listing, err)
		}
		served := 0
		for _, claim := range listing.Pods[0].GetContainers()[0].GetDynamicResources() {
			served += len(claim.GetClaimResources())
		}
		if served != devices {
			t.Errorf("%d devices are served, want %d", served, devices)
		}
	}
}

func memory(t *testing.T, pid int, key string) int64 {
	t.Helper()
	bytes, err := testmemory.Of(pid, key)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
