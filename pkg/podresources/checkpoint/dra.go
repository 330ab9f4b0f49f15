package checkpoint

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	draVersion = "checkpoint.dra.kubelet.k8s.io/v1"
	draKind    = "DRACheckpoint"
)

// A Claim is a ResourceClaim that is prepared on the node, or about to be.
type Claim struct {
	Namespace, Name string
	UID             types.UID
	// PodUIDs are the pods that the kubelet prepared it for, sorted.
	PodUIDs []types.UID
	// Devices is in the order of driver names, and then of the driver's answer.
	Devices []Device
	// SkipsPrepare are the drivers that need not be asked to prepare the claim (alpha
	// in 1.37), so that their devices are never in Devices; sorted.
	SkipsPrepare []string
}

// A Device is what a driver said about one device of a claim.
type Device struct {
	Driver, Pool, Device string
	// ShareID is empty where the device is not shared by capacity.
	ShareID types.UID
	// Requests are the requests of the claim that the device serves; empty means all.
	// The kubelet leaves alternatives out: it is request, not request/alternative.
	Requests []string
	// CDIIDs are handed to every container that uses one of the requests.
	CDIIDs []string
}

// draState repeats ClaimInfoState of k8s.io/kubernetes/pkg/kubelet/cm/dra/state.
type draState struct {
	ClaimUID    types.UID
	ClaimName   string
	Namespace   string
	PodUIDs     map[types.UID]struct{}
	DriverState map[string]struct {
		Devices []struct {
			PoolName     string
			DeviceName   string
			ShareID      *types.UID
			RequestNames []string
			CDIDeviceIDs []string
		}
		SkipNodeOperations []resourceapi.SkipNodeOperation `json:"skipNodeOperations"`
	}
}

// ReadDRA reads the checkpoint of prepared claims from a file.
func ReadDRA(path string) ([]Claim, error) {
	return read(path, DRA)
}

// DRA decodes the checkpoint of prepared claims.
func DRA(content []byte) ([]Claim, error) {
	var envelope struct {
		Data     string
		Checksum uint32
	}
	if err := decode(content, &envelope); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE([]byte(envelope.Data)); sum != envelope.Checksum {
		return nil, fmt.Errorf("%w: %d, want %d", ErrChecksum, envelope.Checksum, sum)
	}
	var data struct {
		APIVersion         string `json:"apiVersion"`
		Kind               string `json:"kind"`
		ClaimInfoStateList []draState
	}
	if err := json.Unmarshal([]byte(envelope.Data), &data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if data.APIVersion != draVersion || data.Kind != draKind {
		return nil, fmt.Errorf("%w: %s of %q, want %s of %q", ErrVersion, data.Kind, data.APIVersion, draKind, draVersion)
	}
	claims := make([]Claim, 0, len(data.ClaimInfoStateList))
	for _, state := range data.ClaimInfoStateList {
		claims = append(claims, state.claim())
	}
	return claims, nil
}

func (s draState) claim() Claim {
	c := Claim{Namespace: s.Namespace, Name: s.ClaimName, UID: s.ClaimUID, PodUIDs: slices.Sorted(maps.Keys(s.PodUIDs))}
	for _, driver := range slices.Sorted(maps.Keys(s.DriverState)) {
		skips := s.DriverState[driver].SkipNodeOperations
		if slices.Contains(skips, resourceapi.SkipNodeOperationAll) || slices.Contains(skips, resourceapi.SkipNodeOperationNodePrepareResources) {
			c.SkipsPrepare = append(c.SkipsPrepare, driver)
		}
		for _, d := range s.DriverState[driver].Devices {
			device := Device{Driver: driver, Pool: d.PoolName, Device: d.DeviceName, Requests: d.RequestNames, CDIIDs: d.CDIDeviceIDs}
			if d.ShareID != nil {
				device.ShareID = *d.ShareID
			}
			c.Devices = append(c.Devices, device)
		}
	}
	return c
}

// read reads a file and names it in errors.
func read[T any](path string, decode func([]byte) (T, error)) (result T, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return result, err
	}
	if result, err = decode(content); err != nil {
		return result, fmt.Errorf("%s: %w", path, err)
	}
	return result, nil
}
