// Package checkpoint reads the two files in which a kubelet keeps the devices that it
// has handed out. They have what its PodResources API leaves out: the UIDs of claim
// and pods, the requests of a claim, and the CDI ids of device plugins.
//
//   - [ReadDRA]: dra_manager_state in the kubelet's root directory, what DRA drivers
//     answered to NodePrepareResources (k8s.io/kubernetes/pkg/kubelet/cm/dra/state).
//   - [ReadDevicePlugins]: device-plugins/kubelet_internal_checkpoint, what device
//     plugins answered to Allocate (pkg/kubelet/cm/devicemanager/checkpoint).
//
// Both are internal to the kubelet and may change. Therefore a file whose checksum is
// wrong, or whose version or shape is not one of Kubernetes 1.34 to 1.37, is an error
// ([ErrChecksum], [ErrVersion]) and never half an answer.
package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Where the kubelet keeps the files: the first below its root directory, the second
// always below /var/lib/kubelet.
const (
	DRAFile           = "dra_manager_state"
	DevicePluginsFile = "kubelet_internal_checkpoint"
	DevicePluginsDir  = "/var/lib/kubelet/device-plugins"
)

var (
	// ErrChecksum: the file was cut off or edited.
	ErrChecksum = errors.New("the checksum does not match the content")
	// ErrVersion: the file is of a kubelet that this package does not know.
	ErrVersion = errors.New("unknown version of the kubelet's checkpoint")
)

// decode decodes the envelope of a checkpoint and wants to know all of its fields: a
// field more means another version.
func decode(content []byte, into any) error {
	if !json.Valid(content) {
		return fmt.Errorf("%w: not JSON", ErrChecksum)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return nil
}
