package checkpoint

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/dump"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// A PluginAllocation is what a container got of one resource of a device plugin.
type PluginAllocation struct {
	PodUID    types.UID
	Container string
	// Resource is the name of the extended resource, such as vendor.example/gpu.
	Resource string
	// DeviceIDs are the plugin's names, sorted.
	DeviceIDs []string
	// CDIIDs are those of the CRI field of KEP-4009, and then those of the annotations
	// cdi.k8s.io/... that runtimes without the field go by; none twice.
	CDIIDs []string
}

// The types below have the names, fields and package name of
// k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint, for the kubelet's
// checksum is one of the printed Go value, names of types included.

// DevicesPerNUMA is a part of what the checksum is made of.
type DevicesPerNUMA map[int64][]string

// PodDevicesEntry is a part of what the checksum is made of.
type PodDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     DevicesPerNUMA
	AllocResp     []byte
}

type checkpointData struct {
	PodDeviceEntries  []PodDevicesEntry
	RegisteredDevices map[string][]string
}

// ReadDevicePlugins reads the checkpoint of the device manager from a file.
func ReadDevicePlugins(path string) ([]PluginAllocation, error) {
	return read(path, DevicePlugins)
}

// DevicePlugins decodes the checkpoint of the device manager.
func DevicePlugins(content []byte) ([]PluginAllocation, error) {
	var envelope struct {
		Data     checkpointData
		Checksum uint64
	}
	if err := decode(content, &envelope); err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, dump.ForHash(envelope.Data))
	if sum := uint64(hash.Sum32()); sum != envelope.Checksum {
		return nil, fmt.Errorf("%w: %d, want %d", ErrChecksum, envelope.Checksum, sum)
	}
	allocations := make([]PluginAllocation, 0, len(envelope.Data.PodDeviceEntries))
	for _, entry := range envelope.Data.PodDeviceEntries {
		allocation, err := entry.allocation()
		if err != nil {
			return nil, fmt.Errorf("%w: pod %s, container %s, resource %s: %w", ErrVersion, entry.PodUID, entry.ContainerName, entry.ResourceName, err)
		}
		allocations = append(allocations, allocation)
	}
	return allocations, nil
}

func (e PodDevicesEntry) allocation() (PluginAllocation, error) {
	a := PluginAllocation{PodUID: types.UID(e.PodUID), Container: e.ContainerName, Resource: e.ResourceName}
	for _, ids := range e.DeviceIDs {
		a.DeviceIDs = append(a.DeviceIDs, ids...)
	}
	slices.Sort(a.DeviceIDs)
	var response plugin.ContainerAllocateResponse
	if err := proto.Unmarshal(e.AllocResp, &response); err != nil {
		return a, err
	}
	var annotated []string
	for key, value := range response.Annotations {
		if strings.HasPrefix(key, cdi.AnnotationPrefix) {
			annotated = append(annotated, strings.Split(value, ",")...)
		}
	}
	slices.Sort(annotated)
	for _, device := range response.CdiDevices {
		a.CDIIDs = addOnce(a.CDIIDs, device.GetName())
	}
	for _, id := range annotated {
		a.CDIIDs = addOnce(a.CDIIDs, id)
	}
	return a, nil
}

func addOnce(ids []string, id string) []string {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}
