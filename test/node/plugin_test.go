package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

const pluginResource = "plugin.example.com/gpu"

// A devicePlugin answers with CDI devices (KEP-4009), which put PLUGIN_<device>=<resource>
// into the environment. Its kind is the name of the resource.
type devicePlugin struct {
	plugin.UnimplementedDevicePluginServer
	spec    string
	stopped chan struct{}
}

// startPlugin writes the specification and registers at the kubelet.
func startPlugin(w *world) *devicePlugin {
	w.Helper()
	p := &devicePlugin{spec: filepath.Join(w.cdiDir, "plugin.json"), stopped: make(chan struct{})}
	p.write(w)
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, p)
	w.Cleanup(func() {
		close(p.stopped)
		server.Stop()
	})
	// A connection that has failed waits longer before each try, and the kubelet may have just started.
	w.eventually("the device plugin is registered", func(ctx context.Context) (bool, string) {
		if err := listenAgain(server); err != nil {
			return false, err.Error()
		}
		conn, err := grpc.NewClient("unix://"+filepath.Join(checkpoint.DevicePluginsDir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close()
		_, err = plugin.NewRegistrationClient(conn).Register(ctx, &plugin.RegisterRequest{Version: plugin.Version, Endpoint: "plugin.sock", ResourceName: pluginResource})
		return err == nil, fmt.Sprint(err)
	})
	w.eventually("the node has the devices of the plugin", func(ctx context.Context) (bool, string) {
		node, err := w.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		free := node.Status.Allocatable[pluginResource]
		return free.Value() == int64(len(pluginDevices())), fmt.Sprint(node.Status.Allocatable)
	})
	return p
}

// listenAgain lets a plugin listen where its socket is missing: a kubelet deletes the sockets of all plugins when
// it starts.
func listenAgain(server *grpc.Server) error {
	socket := filepath.Join(checkpoint.DevicePluginsDir, "plugin.sock")
	if _, err := os.Stat(socket); err == nil {
		return nil
	}
	listener, err := net.Listen("unix", socket)
	if err == nil {
		go func() { _ = server.Serve(listener) }()
	}
	return err
}

// write writes the specification with four devices.
func (p *devicePlugin) write(w *world) {
	var devices []map[string]any
	for _, name := range pluginDevices() {
		variable := "PLUGIN_" + strings.ReplaceAll(name, "-", "_") + "=" + pluginResource
		devices = append(devices, map[string]any{"name": name, "containerEdits": map[string]any{"env": []string{variable}}})
	}
	content, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": pluginResource, "devices": devices})
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(p.spec, content, 0o600); err != nil {
		w.Fatal(err)
	}
}

func pluginDevices() []string { return []string{"g-0", "g-1", "g-2", "g-3"} }

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	var devices []*plugin.Device
	for _, name := range pluginDevices() {
		devices = append(devices, &plugin.Device{ID: name, Health: plugin.Healthy})
	}
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	select {
	case <-p.stopped:
	case <-stream.Context().Done():
	}
	return nil
}

func (p *devicePlugin) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for _, container := range request.GetContainerRequests() {
		answer := &plugin.ContainerAllocateResponse{}
		for _, id := range container.GetDevicesIds() {
			answer.CdiDevices = append(answer.CdiDevices, &plugin.CDIDevice{Name: pluginResource + "=" + id})
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

// pluginPod uses two devices of the plugin in one container and one in another.
func pluginPod() *corev1.Pod {
	some := func(name, n string) corev1.Container {
		list := corev1.ResourceList{pluginResource: resource.MustParse(n)}
		return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
	}
	return pod("default", "plugged", nil, some("two", "2"), some("one", "1"))
}

// pluginAllocations reads back what containers got.
func pluginAllocations(w *world) map[string][]string {
	w.Helper()
	allocations, err := checkpoint.ReadDevicePlugins(filepath.Join(checkpoint.DevicePluginsDir, checkpoint.DevicePluginsFile))
	if err != nil {
		w.Fatal(err)
	}
	got := map[string][]string{}
	for _, a := range allocations {
		got[a.Container] = a.CDIIDs
		for i, id := range a.DeviceIDs {
			if want := pluginResource + "=" + id; a.Resource != pluginResource || !slices.Contains(a.CDIIDs, want) {
				w.Errorf("device %d is %s of %s, the CDI ids are %v, want %s among them", i, id, a.Resource, a.CDIIDs, want)
			}
		}
	}
	return got
}

// TestDevicePlugin: the CDI names of a device plugin reach the runtime; only the kubelet's
// checkpoint has them; and that they no longer resolve is found.
func TestDevicePlugin(t *testing.T) {
	w := newWorld(t)
	p := startPlugin(w)
	w.run(pluginPod())
	got := pluginAllocations(w)
	for name, n := range map[string]int{"two": 2, "one": 1} {
		w.runtime.mutex.Lock()
		environment := w.runtime.environments["plugged/"+name]
		w.runtime.mutex.Unlock()
		if len(got[name]) != n || len(environment) != n {
			t.Errorf("container %s has CDI ids %v and the environment %v, want %d", name, got[name], environment, n)
		}
		for _, id := range got[name] {
			device := strings.ReplaceAll(strings.TrimPrefix(id, pluginResource+"="), "-", "_")
			if environment["PLUGIN_"+device] != pluginResource {
				t.Errorf("container %s lacks %s: %v", name, id, environment)
			}
		}
	}
	client := podresources.New(podresources.Options{})
	defer client.Close()
	one, err := client.Get(t.Context(), "default", "plugged")
	if err != nil || len(one.GetContainers()) != 2 || len(one.GetContainers()[0].GetDevices()) == 0 || strings.Contains(one.String(), pluginResource+"=") {
		t.Errorf("PodResources has the devices, not their CDI names: %v %v", one, err)
	}

	watch := startWatch(w)
	w.eventually("the node is looked at", func(context.Context) (bool, string) {
		return len(watch.metrics("look_timestamp_seconds ")) == 1, ""
	})
	if lines := watch.metrics("cdi_unresolvable{"); len(lines) > 0 {
		t.Errorf("nothing is wrong yet: %s", lines)
	}
	if err := os.Remove(p.spec); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	w.eventually("the metric shows the ids", func(context.Context) (bool, string) {
		lines := watch.metrics("cdi_unresolvable{")
		return len(lines) == 3 && strings.Count(strings.Join(lines, ""), `source="device-plugins"`) == 3, strings.Join(lines, "\n")
	})
	t.Logf("the removed specification of a device plugin is shown after %s", time.Since(removed).Round(time.Millisecond))
	if code, out := w.nodeCheck(); code != 1 || strings.Count(out, "no-spec") != 3 || !strings.Contains(out, "resource "+pluginResource) {
		t.Errorf("node check: %d %s", code, out)
	}
	w.end("plugged", "two")
	w.eventually("the next start fails", func(context.Context) (bool, string) {
		failure := w.runtime.failure("plugged", "two")
		return strings.Contains(failure, "unresolvable CDI devices"), failure
	})
}
