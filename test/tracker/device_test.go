package tracker

import (
	"fmt"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// device makes one of which no string is shared with another.
func device(slice, i int) resourceapi.Device {
	d := resourceapi.Device{
		Name:       "device-" + strconv.Itoa(i),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
	for a := range 8 {
		value := fmt.Sprintf("value-%d-of-%d-%d", a, slice, i)
		d.Attributes[resourceapi.QualifiedName("attribute"+strconv.Itoa(a))] = resourceapi.DeviceAttribute{StringValue: &value}
	}
	return d
}
