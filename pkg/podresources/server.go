package podresources

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A Server answers as the kubelet does, with the devices of claims as Attribute finds
// them: each container has those of its own requests, each device its own CDI ids.
// CPUs, memory and devices of device plugins are those of the kubelet.
//
// Where the kubelet would answer with an empty list because it has just started, the
// Server answers Unavailable. A pod that does not exist is NotFound, not Unknown. Claims
// that no container refers to cannot be said in this API.
type Server struct {
	// Read reads what there is about the node now; Input.Listing must not be nil.
	Read func(context.Context) (Input, error)
	// Allocatable asks the kubelet; Client.Allocatable does.
	Allocatable func(context.Context) (*v1.AllocatableResourcesResponse, error)

	v1.UnimplementedPodResourcesListerServer
}

var _ v1.PodResourcesListerServer = &Server{}

// List implements v1.PodResourcesListerServer.
func (s *Server) List(ctx context.Context, _ *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.ListPodResourcesResponse{PodResources: pods}, nil
}

// Get implements v1.PodResourcesListerServer.
func (s *Server) Get(ctx context.Context, request *v1.GetPodResourcesRequest) (*v1.GetPodResourcesResponse, error) {
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.GetName() == request.GetPodName() && pod.GetNamespace() == request.GetPodNamespace() {
			return &v1.GetPodResourcesResponse{PodResources: pod}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", request.GetPodName(), request.GetPodNamespace())
}

// GetAllocatableResources implements v1.PodResourcesListerServer.
func (s *Server) GetAllocatableResources(ctx context.Context, _ *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	return s.Allocatable(ctx)
}

// pods returns the kubelet's list, corrected.
func (s *Server) pods(ctx context.Context) ([]*v1.PodResources, error) {
	in, err := s.Read(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if missing := Missing(in); missing != "" {
		return nil, status.Errorf(codes.Unavailable, "the kubelet has just started and does not list %s yet", missing)
	}
	type place struct{ namespace, pod, container string }
	resources := map[place][]*v1.DynamicResource{}
	for _, h := range Attribute(in) {
		at := place{h.Namespace, h.Pod, h.Container}
		resources[at] = appendDevice(resources[at], h)
	}
	pods := make([]*v1.PodResources, 0, len(in.Listing.Pods))
	for _, listed := range in.Listing.Pods {
		pod := proto.CloneOf(listed)
		for _, c := range pod.GetContainers() {
			c.DynamicResources = resources[place{pod.GetNamespace(), pod.GetName(), c.GetName()}]
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// appendDevice adds a device to the claim that is last in the list, or to a new one:
// holdings come sorted by claim.
func appendDevice(resources []*v1.DynamicResource, h Holding) []*v1.DynamicResource {
	if n := len(resources); n == 0 || resources[n-1].GetClaimName() != h.Claim {
		resources = append(resources, &v1.DynamicResource{ClaimName: h.Claim, ClaimNamespace: h.Namespace})
	}
	device := &v1.ClaimResource{DriverName: h.Driver, PoolName: h.Pool, DeviceName: h.Device}
	if h.ShareID != "" {
		device.ShareId = proto.String(string(h.ShareID))
	}
	for _, id := range h.CDIIDs {
		device.CdiDevices = append(device.CdiDevices, &v1.CDIDevice{Name: id})
	}
	claim := resources[len(resources)-1]
	claim.ClaimResources = append(claim.ClaimResources, device)
	return resources
}

// Missing names a pod that holds devices for all we know, while the kubelet that has
// just started does not list it. It is empty if nothing is missing; if the pods of the
// API server are not known, a list counts once the kubelet has settled.
func Missing(in Input) string {
	if in.Listing == nil || in.Listing.Settled {
		return ""
	}
	if in.Pods == nil {
		return "its pods"
	}
	listed := map[key]bool{}
	for _, pod := range in.Listing.Pods {
		listed[key{pod.GetNamespace(), pod.GetName()}] = true
	}
	for _, pod := range in.Pods {
		if pod.Status.Phase == corev1.PodRunning && !listed[key{pod.Namespace, pod.Name}] {
			return "pod " + pod.Namespace + "/" + pod.Name
		}
	}
	return ""
}
