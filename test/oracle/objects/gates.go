package objects

import (
	"math/rand/v2"
	"slices"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// gatesBlock is how many neighbours have the same feature gates, since a change of
// gates stops the oracle for a moment.
const gatesBlock = 500

// needs are the gates without which the API server does not start with a gate.
var needs = map[string][]string{
	"DRADeviceBindingConditions":                  {"DRAResourceClaimDeviceStatus"},
	"DRADeviceCompatibilityGroups":                {"DRAPartitionableDevices"},
	"DRADeviceTaintRules":                         {"DRADeviceTaints"},
	"DRAFractionalCapacityRange":                  {"DRAConsumableCapacity"},
	"DRAPartitionableDevicesType":                 {"DRAPartitionableDevices", "DRAResourcePoolStatus"},
	"DRAResourceClaimGranularStatusAuthorization": {"DRAResourceClaimDeviceStatus"},
}

// gates chooses the feature gates of a block: mostly all are on, since what is off
// is dropped; or the defaults; or some are off, one by itself or half of them. Where the
// API server may drop something the answers say what.
func gates(seed, block uint64) (gates map[string]bool, full bool) {
	r := random{Rand: rand.New(rand.NewPCG(seed, block))}
	var names []string
	for _, gate := range apiserver.Gates() {
		names = append(names, string(gate))
	}
	switch (seed + block) % 8 {
	case 0:
		return nil, true
	case 1:
		return without(pick(r, names...)), true
	case 2:
		return with(pick(r, names...)), true
	case 3:
		var off []string
		for _, name := range names {
			if r.bool() {
				off = append(off, name)
			}
		}
		return without(off...), true
	default:
		return map[string]bool{wire.AllDRA: true}, false
	}
}

// without has all gates on but those that are off and those that need them.
func without(off ...string) map[string]bool {
	gates := map[string]bool{wire.AllDRA: true}
	for _, gate := range off {
		gates[gate] = false
	}
	for gate, needed := range needs {
		if slices.ContainsFunc(needed, func(name string) bool { return slices.Contains(off, name) }) {
			gates[gate] = false
		}
	}
	return gates
}

// with has all gates off but one and those that it needs.
func with(on string) map[string]bool {
	gates := map[string]bool{wire.AllDRA: false, on: true}
	for _, needed := range needs[on] {
		gates[needed] = true
	}
	return gates
}
