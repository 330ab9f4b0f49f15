package podresources

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// repeated is a claim with two devices, each n times, and with the CDI ids of those before it.
func repeated(name string, n int) *v1.DynamicResource {
	claim := &v1.DynamicResource{ClaimNamespace: "ml", ClaimName: name}
	var ids []*v1.CDIDevice
	for range n {
		for i := range 2 {
			ids = append(ids, &v1.CDIDevice{Name: fmt.Sprintf("example.com/gpu=%d", i)})
			claim.ClaimResources = append(claim.ClaimResources, &v1.ClaimResource{DriverName: "gpu.example.com", PoolName: "p", DeviceName: fmt.Sprint(i),
				ShareId: map[int]*string{1: proto.String("share")}[i], CdiDevices: ids[:len(ids):len(ids)]})
		}
	}
	return claim
}

func grownAnswer(n int) *v1.ListPodResourcesResponse {
	return &v1.ListPodResourcesResponse{PodResources: []*v1.PodResources{
		{Namespace: "ml", Name: "first", CpuIds: []int64{1}, Containers: []*v1.ContainerResources{{Name: "main", CpuIds: []int64{1, 2}}}},
		{Namespace: "ml", Name: "stuck", Containers: []*v1.ContainerResources{
			{Name: "a", DynamicResources: []*v1.DynamicResource{repeated("gpus", n), repeated("others", 1)}, Devices: []*v1.ContainerDevices{{ResourceName: "example.com/nic", DeviceIds: []string{"0", "0"}}}},
			{Name: "b", DynamicResources: []*v1.DynamicResource{repeated("gpus", n)}}}},
	}}
}

func marshalled(t *testing.T, message proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCompact: of each device the first remains, everything else is as the kubelet answered, and what is no
// message is an error of the decoder.
func TestCompact(t *testing.T) {
	data := marshalled(t, grownAnswer(50))
	codec, answer := newCompactCodec(), &listAnswer{}
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:7]), mem.SliceBuffer(data[7:])}, answer); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&answer.ListPodResourcesResponse, grownAnswer(1)) {
		t.Errorf("the answer is %v, want %v", &answer.ListPodResourcesResponse, grownAnswer(1))
	}
	if want := (types.NamespacedName{Namespace: "ml", Name: "stuck"}); answer.bytes != len(data) || answer.largest != want {
		t.Errorf("%d bytes, most about %s, want %d and %s", answer.bytes, answer.largest, len(data), want)
	}
	one := &v1.GetPodResourcesResponse{}
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(marshalled(t, &v1.GetPodResourcesResponse{PodResources: grownAnswer(50).PodResources[1]}))}, one); err != nil || !proto.Equal(one.PodResources, grownAnswer(1).PodResources[1]) {
		t.Errorf("one pod: %v, %v", one, err)
	}
	for _, broken := range [][]byte{data[:len(data)-1], []byte("\x0a\xff"), []byte("\xff")} {
		if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(broken)}, &listAnswer{}); err == nil {
			t.Errorf("%d broken bytes are decoded", len(broken))
		}
	}
}

// FuzzCompact: what the decoder reads, it reads of the compacted message; what it refuses, it refuses.
func FuzzCompact(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		data, err := proto.Marshal(grownAnswer(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		largestPod(data)
		whole, part := &v1.ListPodResourcesResponse{}, &v1.ListPodResourcesResponse{}
		err := proto.Unmarshal(data, whole)
		compactErr := proto.Unmarshal(compacted(data, podField, containerField, claimField, deviceField), part)
		if (err == nil) != (compactErr == nil) {
			t.Fatalf("decoded: %v; compacted: %v", err, compactErr)
		}
		if err == nil && len(whole.PodResources) != len(part.PodResources) {
			t.Errorf("%d pods, want %d", len(part.PodResources), len(whole.PodResources))
		}
	})
}
