package mutate

import (
	"fmt"
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimSpec is the spec of a claim, its position, and the metadata of the object
// that has it.
type claimSpec struct {
	pointer string
	meta    *metav1.ObjectMeta
	*resourceapi.ResourceClaimSpec
}

// tolerationList is the list of tolerations of a request or of an alternative.
type tolerationList struct {
	// name is that of the request, and after a slash that of the alternative.
	name, class string
	// pointer is the place of the list as a JSON pointer, path in the notation of
	// field.Path with the names of the items.
	pointer, path string
	items         *[]resourceapi.DeviceToleration
}

// lists yields the lists of tolerations. It leaves out lists of requests, alternatives
// and tolerations that are longer than any API server takes: the rules refuse them, and
// the work and the answer would have no bound.
func (spec claimSpec) lists() iter.Seq[tolerationList] {
	return func(yield func(tolerationList) bool) {
		if len(spec.Devices.Requests) > resourceapi.DeviceRequestsMaxSize {
			return
		}
		for i := range spec.Devices.Requests {
			request := &spec.Devices.Requests[i]
			at := fmt.Sprintf("%s/devices/requests/%d", spec.pointer, i)
			path := itemPath(strings.ReplaceAll(spec.pointer[1:], "/", ".")+".devices.requests", i, request.Name)
			for list := range listsOf(request, at, path) {
				if len(*list.items) <= resourceapi.DeviceTolerationsMaxLength && !yield(list) {
					return
				}
			}
		}
	}
}

func listsOf(request *resourceapi.DeviceRequest, at, path string) iter.Seq[tolerationList] {
	return func(yield func(tolerationList) bool) {
		if exactly := request.Exactly; exactly != nil {
			list := tolerationList{request.Name, exactly.DeviceClassName, at + "/exactly/tolerations", path + ".exactly.tolerations", &exactly.Tolerations}
			if !yield(list) {
				return
			}
		}
		if len(request.FirstAvailable) > resourceapi.FirstAvailableDeviceRequestMaxSize {
			return
		}
		for j := range request.FirstAvailable {
			one := &request.FirstAvailable[j]
			pointer := fmt.Sprintf("%s/firstAvailable/%d/tolerations", at, j)
			path := itemPath(path+".firstAvailable", j, one.Name) + ".tolerations"
			if !yield(tolerationList{request.Name + "/" + one.Name, one.DeviceClassName, pointer, path, &one.Tolerations}) {
				return
			}
		}
	}
}

// tolerationOperator makes the default for the operator of tolerations for a kind
// that contains the spec of a claim.
func tolerationOperator[T any](spec func(*T) claimSpec) Default[T] {
	return Default[T]{
		ID: "toleration-operator-equal",
		Doc: `A toleration without an operator gets Equal.

It then matches only taints with the same value, and an empty value matches only taints
without a value.`,
		Upstream: "does the same at decoding, in every version",
		Source:   "KEP-5055, DeviceToleration.Operator",
		Apply: func(w Write[T], _ Settings) (Result, error) {
			return Result{Changes: fillOperators(spec(w.Object))}, nil
		},
	}
}

func fillOperators(spec claimSpec) (changes []Change) {
	for list := range spec.lists() {
		for i := range *list.items {
			toleration := &(*list.items)[i]
			if toleration.Operator == "" {
				toleration.Operator = resourceapi.DeviceTolerationOpEqual
				changes = append(changes, Change{
					Pointer: fmt.Sprintf("%s/%d/operator", list.pointer, i),
					Value:   resourceapi.DeviceTolerationOpEqual,
				})
			}
		}
	}
	return changes
}
