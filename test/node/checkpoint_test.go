package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugins "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"

	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

var update = flag.Bool("update", false, "write the kubelet's files into testdata of package checkpoint")

const recorded = "../../pkg/podresources/checkpoint/testdata"

// draCheckpoint is written by the kubelet's code.
func draCheckpoint(t *testing.T) []byte {
	share := types.UID("share-1")
	cp, err := state.NewCheckpoint(state.ClaimInfoStateList{
		{
			ClaimUID: "uid-1", ClaimName: "two", Namespace: "default", PodUIDs: sets.New("pod-2", "pod-1"),
			DriverState: map[string]state.DriverState{
				"gpu.example.com": {Devices: []state.Device{
					{PoolName: "node-1", DeviceName: "gpu-0", RequestNames: []string{"a"}, CDIDeviceIDs: []string{"vendor.example/gpu=0", "vendor.example/claim=uid-1"}},
					{PoolName: "node-1", DeviceName: "gpu-1", RequestNames: []string{"b/large"}, CDIDeviceIDs: []string{"vendor.example/gpu=1"}, ShareID: &share},
				}},
				"nic.example.com": {SkipNodeOperations: []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}},
			},
		},
		{ClaimUID: "uid-2", ClaimName: "none", Namespace: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return marshal(t, cp.MarshalCheckpoint)
}

// pluginsCheckpoint is written by the kubelet's code.
func pluginsCheckpoint(t *testing.T) []byte {
	response, err := proto.MarshalOptions{Deterministic: true}.Marshal(&plugin.ContainerAllocateResponse{
		CdiDevices:  []*plugin.CDIDevice{{Name: "vendor.example/gpu=0"}},
		Annotations: map[string]string{"cdi.k8s.io/vendor_gpu": "vendor.example/gpu=0,vendor.example/gpu=1", "other": "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return marshal(t, plugins.New([]plugins.PodDevicesEntry{
		{PodUID: "pod-1", ContainerName: "main", ResourceName: "vendor.example/gpu", DeviceIDs: plugins.DevicesPerNUMA{1: {"c"}, 0: {"b", "a"}}, AllocResp: response},
		{PodUID: "pod-2", ContainerName: "main", ResourceName: "vendor.example/nic", DeviceIDs: plugins.DevicesPerNUMA{-1: {"n"}}},
	}, map[string][]string{"vendor.example/gpu": {"a", "b", "c"}, "vendor.example/gone": nil}).MarshalCheckpoint)
}

func marshal(t *testing.T, f func() ([]byte, error)) []byte {
	t.Helper()
	content, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestCheckpoints reads what the kubelet's code writes, and holds the recorded files
// of package checkpoint to it.
func TestCheckpoints(t *testing.T) {
	for name, content := range map[string][]byte{
		checkpoint.DRAFile: draCheckpoint(t), checkpoint.DevicePluginsFile: pluginsCheckpoint(t),
	} {
		path := filepath.Join(recorded, name)
		if *update {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if on, err := os.ReadFile(path); err != nil || !bytes.Equal(on, content) {
			t.Errorf("%s, %v; the kubelet writes\n%s\nrun go test ./... -update", path, err, content)
		}
	}
	claims, err := checkpoint.DRA(draCheckpoint(t))
	if err != nil || len(claims) != 2 {
		t.Fatalf("%v, %v", claims, err)
	}
	want := checkpoint.Claim{
		Namespace: "default", Name: "two", UID: "uid-1", PodUIDs: []types.UID{"pod-1", "pod-2"},
		Devices: []checkpoint.Device{
			{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0", Requests: []string{"a"}, CDIIDs: []string{"vendor.example/gpu=0", "vendor.example/claim=uid-1"}},
			{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1", ShareID: "share-1", Requests: []string{"b/large"}, CDIIDs: []string{"vendor.example/gpu=1"}},
		},
		SkipsPrepare: []string{"nic.example.com"},
	}
	if diff := cmp.Diff(want, claims[0]); diff != "" {
		t.Error(diff)
	}
	allocations, err := checkpoint.DevicePlugins(pluginsCheckpoint(t))
	if err != nil || len(allocations) != 2 {
		t.Fatalf("%v, %v", allocations, err)
	}
	if diff := cmp.Diff(checkpoint.PluginAllocation{
		PodUID: "pod-1", Container: "main", Resource: "vendor.example/gpu", DeviceIDs: []string{"a", "b", "c"},
		CDIIDs: []string{"vendor.example/gpu=0", "vendor.example/gpu=1"},
	}, allocations[0]); diff != "" {
		t.Error(diff)
	}
}

// FuzzDevicePlugins: what the kubelet's code accepts, we accept with the same entries,
// unless it has fields that this kubelet does not write; what it refuses, we refuse.
func FuzzDevicePlugins(f *testing.F) {
	f.Add([]byte(`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`))
	content, err := os.ReadFile(filepath.Join(recorded, checkpoint.DevicePluginsFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		// Most changes break the checksum: try them with the right one, too.
		data := plugins.Data{}
		if json.Unmarshal(content, &data) == nil {
			fixed, err := data.MarshalCheckpoint()
			if err != nil {
				t.Fatal(err)
			}
			comparePlugins(t, fixed)
		}
		comparePlugins(t, content)
	})
}

func comparePlugins(t *testing.T, content []byte) {
	var data plugins.Data
	err := data.UnmarshalCheckpoint(content)
	if err == nil {
		err = data.VerifyChecksum()
	}
	ours, ourErr := checkpoint.DevicePlugins(content)
	switch {
	case err != nil && ourErr == nil:
		t.Errorf("the kubelet says %v, we nothing, to\n%s", err, content)
	case err == nil && ourErr == nil:
		if entries, _ := data.GetData(); len(entries) != len(ours) {
			t.Errorf("%d entries, we have %d", len(entries), len(ours))
		}
	case err == nil && errors.Is(ourErr, checkpoint.ErrChecksum):
		t.Errorf("the kubelet accepts the checksum, we say %v, to\n%s", ourErr, content)
	}
}
