package mutate

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// claimSpec is the spec of a claim and where it stands.
type claimSpec struct {
	pointer string
	*resourceapi.ResourceClaimSpec
}

// tolerationOperator makes the default for the operator of tolerations for a kind
// that contains the spec of a claim.
func tolerationOperator[T any](spec func(*T) claimSpec) Default[T] {
	return Default[T]{
		ID: "toleration-operator-equal",
		Doc: `A toleration without an operator gets Equal.

So it matches only taints with its value, and an empty value matches only taints
without one.`,
		Server: "does the same at decoding, in every version",
		Source: "KEP-5055, DeviceToleration.Operator",
		Apply: func(w Write[T], _ Settings) (Result, error) {
			return Result{Changes: fillOperators(spec(w.Object))}, nil
		},
	}
}

// fillOperators leaves out lists that are longer than any API server takes: the rules
// refuse them, and the work and the answer would have no bound.
func fillOperators(spec claimSpec) (changes []Change) {
	if len(spec.Devices.Requests) > resourceapi.DeviceRequestsMaxSize {
		return nil
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		at := fmt.Sprintf("%s/devices/requests/%d", spec.pointer, i)
		if request.Exactly != nil {
			changes = append(changes, fillOperator(at+"/exactly/tolerations", request.Exactly.Tolerations)...)
		}
		if len(request.FirstAvailable) > resourceapi.FirstAvailableDeviceRequestMaxSize {
			continue
		}
		for j := range request.FirstAvailable {
			list := fmt.Sprintf("%s/firstAvailable/%d/tolerations", at, j)
			changes = append(changes, fillOperator(list, request.FirstAvailable[j].Tolerations)...)
		}
	}
	return changes
}

func fillOperator(list string, tolerations []resourceapi.DeviceToleration) (changes []Change) {
	if len(tolerations) > resourceapi.DeviceTolerationsMaxLength {
		return nil
	}
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
			changes = append(changes, Change{
				Pointer: fmt.Sprintf("%s/%d/operator", list, i),
				Value:   resourceapi.DeviceTolerationOpEqual,
			})
		}
	}
	return changes
}
