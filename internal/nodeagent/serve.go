package nodeagent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// The limits of the kubelet's own socket, for all clients together. An answer is as large as
// the kubelet's own client accepts.
const (
	servedPerSecond = 100
	servedBurst     = 10
	servedBytes     = 16 << 20
)

// servePodResources answers at a socket of our own, which only root may use, as that
// of the kubelet.
func servePodResources(ctx context.Context, socket string, devices map[string]string, agent *Agent) error {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("--serve-socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("--serve-socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return fmt.Errorf("--serve-socket: %w", err)
	}
	server := newPodResourcesServer(&podresources.Server{Read: agent.Read, Allocatable: agent.Kubelet.Allocatable, Devices: agent.servedDevice(devices)})
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// newPodResourcesServer bounds the calls and the answers of a server.
func newPodResourcesServer(corrected v1.PodResourcesListerServer) *grpc.Server {
	limit := rate.NewLimiter(servedPerSecond, servedBurst)
	server := grpc.NewServer(grpc.MaxSendMsgSize(servedBytes), grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if !limit.Allow() {
				return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
			}
			return handler(ctx, request)
		}))
	v1.RegisterPodResourcesListerServer(server, corrected)
	return server
}

// checkServedDevices refuses names of resources and attributes that cannot exist. An attribute
// names its driver: a resource has the devices of one.
func checkServedDevices(devices map[string]string) error {
	for _, resource := range slices.Sorted(maps.Keys(devices)) {
		attribute := devices[resource]
		if len(validation.IsQualifiedName(resource)) > 0 || !strings.Contains(resource, "/") {
			return fmt.Errorf("%q: must be the name of an extended resource, such as nvidia.com/gpu", resource)
		}
		if err := CheckAttributes([]string{attribute}); err != nil || !strings.Contains(attribute, "/") {
			return fmt.Errorf("%s=%q: must be an attribute with its driver, such as gpu.nvidia.com/uuid", resource, attribute)
		}
	}
	return nil
}

// servedDevice returns the resource and id under which a device is served as that of a device
// plugin: by an attribute of its driver. A pod with adminAccess does not use the device.
func (a *Agent) servedDevice(devices map[string]string) func(podresources.Holding) (resource, id string) {
	if len(devices) == 0 {
		return nil
	}
	return func(h podresources.Holding) (string, string) {
		if h.AdminAccess {
			return "", ""
		}
		for _, resource := range slices.Sorted(maps.Keys(devices)) {
			attribute := devices[resource]
			if driver, _, _ := strings.Cut(attribute, "/"); driver != h.Driver {
				continue
			}
			if id := a.NodeView.Attributes(h.Driver, h.Pool, h.Device, []string{attribute})[attribute]; id != "" {
				return resource, id
			}
		}
		return "", ""
	}
}
