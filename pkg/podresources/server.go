package podresources

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// A Server answers as the kubelet does, with the devices of claims as Attribute finds
// them: each container has those of its own requests, each device its own CDI ids.
// Init containers that have not finished are in the answer with their claims, as KEP-3695
// has it; the kubelet leaves them out. CPUs, memory and devices of device plugins are those
// of the kubelet, which has none for init containers that do not restart.
//
// Where the kubelet would answer with an empty list because it has just started, the
// Server answers Unavailable. A pod that does not exist is NotFound, not Unknown. The API
// has no field for devices that no container holds: those of requests that no container
// refers to, or only init containers that have finished.
//
// Many clients cost the kubelet no more than one: what a call gets was read after it came,
// calls that come together share a read, and there are at most five reads per second. If
// the kubelet cannot be read, its last answer is served for a minute; if claims cannot, they
// count as they were read last. Then the header ageHeader of the answer has its age.
type Server struct {
	// Read reads what there is about the node now; Input.Listing must not be nil.
	Read func(context.Context) (Input, error)
	// Allocatable asks the kubelet; Client.Allocatable does.
	Allocatable func(context.Context) (*v1.AllocatableResourcesResponse, error)
	// Devices returns an extended resource and an id by which a device of a claim is listed
	// as that of a device plugin, too, for clients that read no claims; an empty id does not
	// list it. Nil lists none.
	Devices func(Holding) (resource, id string)

	v1.UnimplementedPodResourcesListerServer

	start       sync.Once
	corrected   *shared[answer]
	allocatable *shared[*v1.AllocatableResourcesResponse]
	last        answer // of the read before; reads are one at a time
}

// ageHeader is the gRPC header of answers that are not of now: their age in seconds.
const ageHeader = "dra-steward-age-seconds"

const (
	readPause = 200 * time.Millisecond // between reads for clients
	keep      = time.Minute            // the last answer, if the kubelet gives none
	patience  = 4 * time.Second        // with a read while there is a last answer
)

// An answer is the corrected list, and when it was right.
type answer struct {
	pods []*v1.PodResources
	asOf time.Time // zero: now
	read time.Time
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
	s.prepare()
	return s.allocatable.get(ctx)
}

func (s *Server) prepare() {
	s.start.Do(func() {
		s.corrected = &shared[answer]{read: s.read, pause: readPause}
		s.allocatable = &shared[*v1.AllocatableResourcesResponse]{read: s.Allocatable, pause: readPause}
	})
}

// pods returns the corrected list, and puts its age in the header of the answer.
func (s *Server) pods(ctx context.Context) ([]*v1.PodResources, error) {
	s.prepare()
	a, err := s.corrected.get(ctx)
	if err == nil && !a.asOf.IsZero() {
		age := strconv.Itoa(int(time.Since(a.asOf).Seconds()))
		_ = grpc.SetHeader(ctx, metadata.Pairs(ageHeader, age)) // fails without a connection
	}
	return a.pods, err
}

// read reads and corrects the list. If the kubelet does not give one, the last one counts
// for a while.
func (s *Server) read(ctx context.Context) (answer, error) {
	now := time.Now()
	old := s.last
	kept := !old.read.IsZero() && now.Sub(old.read) <= keep
	if kept { // clients have timeouts of their own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	in, err := s.Read(ctx)
	if err != nil {
		err = status.Error(codes.Unavailable, err.Error())
	} else if missing := Missing(in); missing != "" {
		err = status.Errorf(codes.Unavailable, "the kubelet has just started and does not list %s yet", missing)
	}
	if err == nil {
		s.last = answer{pods: s.correct(in), asOf: in.AsOf, read: now}
		return s.last, nil
	}
	if !kept {
		return answer{}, err
	}
	if old.asOf.IsZero() {
		old.asOf = old.read
	}
	return old, nil
}

// correct returns the kubelet's list with the devices of claims as Attribute finds them.
func (s *Server) correct(in Input) []*v1.PodResources {
	claims := map[place][]*v1.DynamicResource{}
	devices := map[place][]*v1.ContainerDevices{}
	containers := map[key][]string{} // those with devices, by pod
	for _, h := range Attribute(in) {
		if h.ofPlugin() || h.Container == "" {
			continue // as the kubelet lists it, or without a field
		}
		at, pod := place{h.Namespace, h.Pod, h.Container}, key{h.Namespace, h.Pod}
		if claims[at] == nil {
			containers[pod] = append(containers[pod], h.Container)
		}
		claims[at] = appendDevice(claims[at], h)
		if s.Devices != nil {
			if resource, id := s.Devices(h); id != "" {
				devices[at] = append(devices[at], &v1.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
			}
		}
	}
	pods := make([]*v1.PodResources, 0, len(in.Listing.Pods))
	for _, listed := range in.Listing.Pods {
		pod := withoutClaims(listed)
		for _, name := range containers[key{pod.GetNamespace(), pod.GetName()}] {
			if !slices.ContainsFunc(pod.Containers, func(c *v1.ContainerResources) bool { return c.GetName() == name }) {
				pod.Containers = append(pod.Containers, &v1.ContainerResources{Name: name})
			}
		}
		for _, c := range pod.GetContainers() {
			at := place{pod.GetNamespace(), pod.GetName(), c.GetName()}
			c.DynamicResources = claims[at]
			c.Devices = append(c.Devices, devices[at]...)
		}
		pods = append(pods, pod)
	}
	return pods
}

type place struct{ namespace, pod, container string }

// withoutClaims copies what the kubelet lists about a pod without its claims, which can be
// most of it (kubernetes#141335).
func withoutClaims(listed *v1.PodResources) *v1.PodResources {
	pod := &v1.PodResources{Name: listed.GetName(), Namespace: listed.GetNamespace()}
	pod.ProtoReflect().SetUnknown(listed.ProtoReflect().GetUnknown()) // of a newer kubelet
	for _, c := range listed.GetContainers() {
		kept := &v1.ContainerResources{Name: c.GetName(), Devices: slices.Clone(c.GetDevices()), CpuIds: c.GetCpuIds(), Memory: c.GetMemory()}
		kept.ProtoReflect().SetUnknown(c.ProtoReflect().GetUnknown())
		pod.Containers = append(pod.Containers, kept)
	}
	return pod
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
// API server are not known, a list counts once it is complete.
func Missing(in Input) string {
	if in.Listing == nil || in.Listing.Complete {
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

// addPlugins adds the devices of device plugins as the kubelet lists them: by container, with
// the right ids, and without CDI ids. A device near two NUMA nodes is listed twice.
func (a *attribution) addPlugins() {
	if a.in.Listing == nil {
		return
	}
	pods := map[key]*corev1.Pod{}
	for _, pod := range a.in.Pods {
		pods[key{pod.Namespace, pod.Name}] = pod
	}
	type device struct{ container, resource, id string }
	for _, listed := range a.in.Listing.Pods {
		pod := pods[key{listed.GetNamespace(), listed.GetName()}]
		if pod != nil && isDone(pod) {
			continue
		}
		once := map[device]bool{}
		for _, container := range listed.GetContainers() {
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					at := device{container.GetName(), devices.GetResourceName(), id}
					if once[at] {
						continue
					}
					once[at] = true
					h := Holding{Device: id, Prepared: PreparedYes, Source: FromPodResources, Exactness: CDIUnknown}
					if pod != nil {
						h = heldBy(pod, at.container, "", at.resource, h)
					}
					h.Namespace, h.Pod, h.Container, h.Resource = listed.GetNamespace(), listed.GetName(), at.container, at.resource
					a.holdings = append(a.holdings, h)
				}
			}
		}
	}
}
