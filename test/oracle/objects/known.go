package objects

import (
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// Known leaves out what the newest minor has no fields for. Older ones have fields that
// are gone; we read what the newest one knows, so we have nothing to say of them.
func Known(kind string, object json.RawMessage) (json.RawMessage, error) {
	typed := map[string]any{
		"ResourceSlice": &resourceapi.ResourceSlice{}, "ResourceClaim": &resourceapi.ResourceClaim{},
		"ResourceClaimTemplate": &resourceapi.ResourceClaimTemplate{}, "DeviceClass": &resourceapi.DeviceClass{},
		"DeviceTaintRule": &resourceapi.DeviceTaintRule{},
	}[kind]
	if typed == nil {
		return nil, fmt.Errorf("%q is no kind of resource.k8s.io", kind)
	}
	if err := json.Unmarshal(object, typed); err != nil {
		return nil, err
	}
	return json.Marshal(typed)
}
