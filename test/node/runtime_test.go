package node

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// A containerRuntime is the fake of Kubernetes, which starts nothing, but injects CDI
// devices as containerd does: by the CDI library, into the environment of a container.
type containerRuntime struct {
	*fake.RemoteRuntime
	socket string
	cdiDir string
	server *grpc.Server

	mutex        sync.Mutex                   // guards what follows
	environments map[string]map[string]string // "pod/container" -> its latest environment
	failures     map[string]string            // "pod/container" -> why it was not created at last
	resizes      int
	failing      string // the namespace whose containers fail when they start
}

func startRuntime(t testing.TB, cdiDir string) *containerRuntime {
	r := &containerRuntime{
		RemoteRuntime: fake.NewFakeRemoteRuntime(), socket: filepath.Join(tempDir(t), "cri.sock"), cdiDir: cdiDir, server: grpc.NewServer(),
		environments: map[string]map[string]string{}, failures: map[string]string{},
	}
	r.RuntimeService.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}
	r.RuntimeService.FakeLinuxConfiguration = &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}
	r.ImageService.SetFakeImageSize(1)
	r.ImageService.SetFakeImages([]string{image})
	cri.RegisterRuntimeServiceServer(r.server, r)
	cri.RegisterImageServiceServer(r.server, r)
	listener, err := net.Listen("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.server.Serve(listener) }()
	t.Cleanup(r.server.Stop)
	return r
}

// CreateContainer fails where a CDI id does not resolve, with containerd's words.
func (r *containerRuntime) CreateContainer(ctx context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	name := request.GetSandboxConfig().GetMetadata().GetName() + "/" + request.GetConfig().GetMetadata().GetName()
	spec := &oci.Spec{Process: &oci.Process{}}
	var ids []string
	for _, device := range request.GetConfig().GetCDIDevices() {
		ids = append(ids, device.GetName())
	}
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(r.cdiDir))
	if err != nil {
		return nil, err
	}
	_, err = cache.InjectDevices(spec, ids...)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err != nil {
		r.failures[name] = fmt.Sprintf("CDI device injection failed: %v", err)
		return nil, fmt.Errorf("CDI device injection failed: %w", err)
	}
	delete(r.failures, name)
	r.environments[name] = map[string]string{}
	for _, variable := range spec.Process.Env {
		key, value, _ := strings.Cut(variable, "=")
		r.environments[name][key] = value
	}
	response, err := r.RemoteRuntime.CreateContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	c := r.RuntimeService.Containers[response.GetContainerId()]
	c.LogPath = filepath.Join(request.GetSandboxConfig().GetLogDirectory(), request.GetConfig().GetLogPath())
	c.Resources = &cri.ContainerResources{Linux: request.GetConfig().GetLinux().GetResources()}
	return response, nil
}

// UpdateContainerResources resizes a container, whose status has what it was told.
func (r *containerRuntime) UpdateContainerResources(_ context.Context, request *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	c := r.RuntimeService.Containers[request.GetContainerId()]
	if c == nil {
		return nil, fmt.Errorf("container %q not found", request.GetContainerId())
	}
	c.Resources = &cri.ContainerResources{Linux: request.GetLinux()}
	r.resizes++
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// StartContainer starts a container, which ends at once where it has to fail.
func (r *containerRuntime) StartContainer(ctx context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	response, err := r.RemoteRuntime.StartContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	if c := r.RuntimeService.Containers[request.GetContainerId()]; c != nil && r.failing == c.Labels["io.kubernetes.pod.namespace"] {
		c.State, c.FinishedAt, c.ExitCode = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), 1
	}
	return response, nil
}

// fail lets the containers of a namespace fail that start from now on. An empty name is none.
func (r *containerRuntime) fail(namespace string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.failing = namespace
}

// resized is how often the kubelet has resized containers.
func (r *containerRuntime) resized() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.resizes
}

func (r *containerRuntime) failure(pod, container string) string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.failures[pod+"/"+container]
}

// reboot ends all containers and forgets them, as a node that starts again.
func (r *containerRuntime) reboot() {
	r.RuntimeService.Lock()
	clear(r.RuntimeService.Containers)
	clear(r.RuntimeService.Sandboxes)
	r.RuntimeService.Unlock()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.environments)
}
