package podresources_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

func serve(in podresources.Input) *podresources.Server {
	return &podresources.Server{Read: func(context.Context) (podresources.Input, error) { return in, nil }}
}

// TestServer: an agent that reads the corrected answer sees what each container has.
func TestServer(t *testing.T) {
	in := recorded(t)
	in.Listing.Complete = true
	answer, err := serve(in).List(t.Context(), &v1.ListPodResourcesRequest{})
	if err != nil || len(answer.GetPodResources()) != len(in.Listing.Pods) {
		t.Fatalf("%v, %v", answer, err)
	}
	got := map[string]int{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, r := range c.GetDynamicResources() {
				for _, d := range r.GetClaimResources() {
					got[pod.GetName()+"/"+c.GetName()]++
					if len(d.GetCdiDevices()) != 1 {
						t.Errorf("%s: want one CDI id: %v", pod.GetName(), d)
					}
				}
			}
		}
	}
	want := map[string]int{
		"alternatives/either": 1, "alternatives/more": 1, "extended/first": 1, "extended/second": 1, "monitor/main": 1,
		"requests/all": 3, "requests/only-a": 2, "requests/only-b": 1, "shared-1/main": 1, "shared-2/main": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices of containers:\n%s", diff)
	}
	// Its own answer is not corrected twice.
	again := in
	again.Listing = &podresources.Listing{Pods: answer.GetPodResources(), Complete: true}
	twice, err := serve(again).List(t.Context(), nil)
	if diff := cmp.Diff(answer, twice, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestServerInitContainers: the kubelet leaves out the init containers that do not restart;
// KEP-3695 lists all containers of a pod.
func TestServerInitContainers(t *testing.T) {
	for name, test := range map[string]struct {
		state   corev1.ContainerState
		devices int
	}{"waiting": {corev1.ContainerState{}, 2}, "running": {running, 2}, "finished": {finished, 0}} {
		in := recorded(t)
		in.Listing.Complete = true
		initContainer(pod(in, "requests"), test.state, "a")
		one, err := serve(in).Get(t.Context(), &v1.GetPodResourcesRequest{PodName: "requests", PodNamespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		devices := 0
		for _, c := range one.GetPodResources().GetContainers() {
			if c.GetName() == "init" {
				for _, r := range c.GetDynamicResources() {
					devices += len(r.GetClaimResources())
				}
			}
		}
		if devices != test.devices {
			t.Errorf("%s: %d devices of the init container, want %d", name, devices, test.devices)
		}
	}
}

// TestServerGroups: the devices of one claim are one DynamicResource.
func TestServerGroups(t *testing.T) {
	in := recorded(t)
	in.Listing.Complete = true
	answer, err := serve(in).List(t.Context(), &v1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			claims := map[string]bool{}
			for _, r := range c.GetDynamicResources() {
				if claims[r.GetClaimName()] {
					t.Errorf("%s/%s: claim %s comes twice", pod.GetName(), c.GetName(), r.GetClaimName())
				}
				claims[r.GetClaimName()] = true
			}
		}
	}
}

// TestServerDevices: agents that read no claims get devices by an id, next to those of device
// plugins.
func TestServerDevices(t *testing.T) {
	in := recorded(t)
	in.Listing.Complete = true
	s := serve(in)
	s.Devices = func(h podresources.Holding) (resource, id string) {
		if h.AdminAccess {
			return "", ""
		}
		return "nvidia.com/gpu", "GPU-" + h.Device
	}
	answer, err := s.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				if d.GetResourceName() == "nvidia.com/gpu" {
					got[pod.GetName()+"/"+c.GetName()] += len(d.GetDeviceIds())
				}
			}
		}
	}
	want := map[string]int{
		"alternatives/either": 1, "alternatives/more": 1, "extended/first": 1, "extended/second": 1,
		"requests/all": 3, "requests/only-a": 2, "requests/only-b": 1, "shared-1/main": 1, "shared-2/main": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices of containers:\n%s", diff)
	}
}

func TestServerErrors(t *testing.T) {
	in := recorded(t)
	in.Listing.Complete = true
	_, err := serve(in).Get(t.Context(), &v1.GetPodResourcesRequest{PodName: "absent", PodNamespace: "default"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("%v, want NotFound", err)
	}
	if one, err := serve(in).Get(t.Context(), &v1.GetPodResourcesRequest{PodName: "requests", PodNamespace: "default"}); err != nil || len(one.GetPodResources().GetContainers()) != 4 {
		t.Errorf("%v, %v", one, err)
	}
	in.Listing = &podresources.Listing{}
	if _, err := serve(in).List(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable while the kubelet knows no pods", err)
	}
	in.Pods = nil
	if _, err := serve(in).List(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable while nothing says what is missing", err)
	}
	broken := &podresources.Server{Read: func(context.Context) (podresources.Input, error) { return in, errors.New("no socket") }}
	if _, err := broken.List(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}
