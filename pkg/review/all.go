package review

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
)

// selectsAll reads a field of DeviceTaintRules that the linked types do not have yet:
// deviceSelector.all (kubernetes#142287). A rule with it is a rule for every device, also if
// it names a driver, pool or device. Any value is taken for true but false and null, because
// only the types of a newer API server know what else the field may hold.
func selectsAll(data []byte, rule *resourceapi.DeviceTaintRule) {
	var newer struct {
		Spec struct {
			DeviceSelector map[string]json.RawMessage `json:"deviceSelector"`
		} `json:"spec"`
	}
	if json.Unmarshal(data, &newer) != nil {
		return
	}
	switch string(newer.Spec.DeviceSelector["all"]) {
	case "", "false", "null":
	default:
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
	}
}

// written is object, with the fields that the type does not have.
func (k kindOf[T]) written(r Reviewer, req Request) (*T, error) {
	obj, err := k.object(r, req)
	if err == nil && k.newer != nil {
		k.newer(req.Object, obj)
	}
	return obj, err
}

// read is decode, with the fields that the type does not have.
func (k kindOf[T]) read(r Reviewer, what string, data []byte) (*T, error) {
	obj, err := k.decode(r, what, data)
	if obj != nil && k.newer != nil {
		k.newer(data, obj)
	}
	return obj, err
}

// reading sets what reads fields that the type does not have.
func (k kindOf[T]) reading(newer func(data []byte, obj *T)) kindOf[T] {
	k.newer = newer
	return k
}
