// Package newer reads objects that mean more than the linked types have: fields that these types do not have yet, and
// numbers that they cannot read. A client with these types drops the fields, and an object can then mean less than the API
// server takes it for.
package newer

import (
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
)

// Decode adds to a DeviceTaintRule what its types do not have of data, the JSON that it is
// decoded from: a rule with deviceSelector.all (kubernetes#142287) selects every device, also if
// it names a driver, pool or device. Any value is taken for true but false and null, because only
// the types of a newer API server know what else the field may hold.
func Decode(data []byte, rule *resourceapi.DeviceTaintRule) {
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

// DecodeAny is Decode for an object of any type. Only DeviceTaintRules change.
func DecodeAny(data []byte, object any) {
	if rule, is := object.(*resourceapi.DeviceTaintRule); is && rule != nil {
		Decode(data, rule)
	}
}
