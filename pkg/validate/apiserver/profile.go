package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Profile is the API server that the mirror rules repeat. The zero value is the
// newest supported minor with its default feature gates.
type Profile struct {
	// Minor is the minor version of Kubernetes 1: OldestMinor to NewestMinor, 0 for
	// the newest.
	Minor int
	// Next adds to the newest minor what Kubernetes has merged for the one after it. Minor
	// is 0 then.
	Next bool
	// Gates are feature gates that differ from the minor's default.
	Gates map[Gate]bool
}

// OldestMinor and NewestMinor are the minors of Kubernetes 1 whose API servers the
// rules can repeat.
const (
	OldestMinor = 34
	NewestMinor = 37
)

// A Gate is the name of a feature gate of the API server, as in Kubernetes. [Gates] lists
// those that change what the API server allows in resource.k8s.io.
type Gate string

// The gates that change what the API server says about resource.k8s.io.
const (
	gateAdminAccess                 Gate = "DRAAdminAccess"
	gatePrioritizedList             Gate = "DRAPrioritizedList"
	gateResourceClaimDeviceStatus   Gate = "DRAResourceClaimDeviceStatus"
	gateDeviceTaints                Gate = "DRADeviceTaints"
	gatePartitionableDevices        Gate = "DRAPartitionableDevices"
	gateConsumableCapacity          Gate = "DRAConsumableCapacity"
	gateFractionalCapacityRange     Gate = "DRAFractionalCapacityRange"
	gateDeviceBindingConditions     Gate = "DRADeviceBindingConditions"
	gateExtendedResource            Gate = "DRAExtendedResource"
	gateListTypeAttributes          Gate = "DRAListTypeAttributes"
	gateNodeAllocatableResources    Gate = "DRANodeAllocatableResources"
	gateDerivedAttributes           Gate = "DRADerivedAttributes"
	gateDeviceCompatibilityGroups   Gate = "DRADeviceCompatibilityGroups"
	gatePartitionableDevicesType    Gate = "DRAPartitionableDevicesType"
	gateOptionalNodeOperations      Gate = "DRAOptionalNodeOperations"
	gateResourceClaimDeviceGranular Gate = "DRAResourceClaimGranularStatusAuthorization"
)

// lifetime says from which minor on a gate exists, is on by default, and can no
// longer be switched off; 0 is never.
type lifetime struct{ exists, on, locked int }

// gates is the state of the gates in the supported minors, from
// pkg/features/kube_features.go of each.
var gates = map[Gate]lifetime{
	gateAdminAccess:                 {34, 34, 36},
	gatePrioritizedList:             {34, 34, 37},
	gateResourceClaimDeviceStatus:   {34, 34, 37},
	gateDeviceTaints:                {34, 36, 38},
	gatePartitionableDevices:        {34, 36, 0},
	gateConsumableCapacity:          {34, 36, 0},
	gateFractionalCapacityRange:     {37, 0, 0}, // on only with a minimum compatibility version of 1.37
	gateDeviceBindingConditions:     {34, 36, 0},
	gateExtendedResource:            {34, 36, 37},
	gateListTypeAttributes:          {36, 0, 0},
	gateNodeAllocatableResources:    {36, 0, 0},
	gateDerivedAttributes:           {37, 0, 0},
	gateDeviceCompatibilityGroups:   {37, 0, 0},
	gatePartitionableDevicesType:    {37, 0, 0},
	gateOptionalNodeOperations:      {37, 0, 0},
	gateResourceClaimDeviceGranular: {36, 36, 0},
}

// EffectiveMinor returns Minor, or NewestMinor where Minor is 0, or the one after it for Next.
func (p Profile) EffectiveMinor() int {
	switch {
	case p.Next:
		return NewestMinor + 1
	case p.Minor == 0:
		return NewestMinor
	}
	return p.Minor
}

// Since reports whether the profile's minor is at least minor.
func (p Profile) Since(minor int) bool { return p.EffectiveMinor() >= minor }

// Enabled reports whether gate is on in the profile.
func (p Profile) Enabled(gate Gate) bool {
	life := gates[gate]
	if !p.Since(life.exists) || life.exists == 0 {
		return false
	}
	if set, is := p.Gates[gate]; is && !(life.locked > 0 && p.Since(life.locked)) {
		return set
	}
	return life.on > 0 && p.Since(life.on)
}

// Gates lists the gates that the profiles know, sorted.
func Gates() []Gate { return slices.Sorted(maps.Keys(gates)) }

// Validate refuses a minor that is not supported and gates that do not exist in it
// or cannot be switched as wished; all of them in one error.
func (p Profile) Validate() error {
	if p.Minor != 0 && (p.Next || p.Minor < OldestMinor || p.Minor > NewestMinor) {
		return fmt.Errorf("minor 1.%d of Kubernetes: must be between 1.%d and 1.%d", p.Minor, OldestMinor, NewestMinor)
	}
	var errs []error
	for _, gate := range slices.Sorted(maps.Keys(p.Gates)) {
		life, known := gates[gate]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("feature gate %q: unknown; those that change a verdict are %s", gate, join(Gates())))
		case !p.Since(life.exists):
			errs = append(errs, fmt.Errorf("feature gate %s: exists since 1.%d, not in 1.%d", gate, life.exists, p.EffectiveMinor()))
		case life.locked > 0 && p.Since(life.locked) && !p.Gates[gate]:
			errs = append(errs, fmt.Errorf("feature gate %s: cannot be switched off since 1.%d", gate, life.locked))
		}
	}
	return errors.Join(errs...)
}

func join(gates []Gate) string {
	var names []string
	for _, gate := range gates {
		names = append(names, string(gate))
	}
	return strings.Join(names, ", ")
}
