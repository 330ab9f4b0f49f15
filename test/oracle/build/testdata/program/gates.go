package main

import (
	"fmt"
	"maps"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates

	"oracle/wire"
)

// current are the gates that are set, beside the defaults.
var current map[string]bool

func sameGates(a, b map[string]bool) bool { return maps.Equal(a, b) }

// setGates sets the gates named, and all others of DRA to their defaults.
func setGates(named map[string]bool) error {
	if current != nil && sameGates(current, named) {
		return nil
	}
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	values := map[string]bool{}
	for gate, spec := range all {
		if isDRA(string(gate)) && !spec.LockToDefault && spec.PreRelease != featuregate.PreAlpha {
			values[string(gate)] = spec.Default
			if on, asked := named[wire.AllDRA]; asked && !strangers[string(gate)] {
				values[string(gate)] = on
			}
		}
	}
	for gate, on := range named {
		if gate == wire.AllDRA {
			continue
		}
		spec, known := all[featuregate.Feature(gate)]
		if !known || !isDRA(gate) {
			return fmt.Errorf("gate %s: this minor has no such gate of DRA", gate)
		}
		if spec.LockToDefault && spec.Default != on {
			return fmt.Errorf("gate %s is locked to %t", gate, spec.Default)
		}
		if !spec.LockToDefault {
			values[gate] = on
		}
	}
	current = nil
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(values); err != nil {
		return err
	}
	current = maps.Clone(named)
	if current == nil {
		current = map[string]bool{}
	}
	return nil
}

// defaults are the gates that Case.Gates may name, with what they are by default.
func defaults() map[string]wire.Gate {
	gates := map[string]wire.Gate{}
	for gate, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if isDRA(string(gate)) {
			gates[string(gate)] = wire.Gate{On: spec.Default, Locked: spec.LockToDefault}
		}
	}
	return gates
}

func isDRA(gate string) bool { return strings.HasPrefix(gate, "DRA") }

// strangers need gates that are not of DRA.
var strangers = map[string]bool{"DRAWorkloadResourceClaims": true}
