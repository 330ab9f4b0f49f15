package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A change is what a patch does to one attribute or capacity.
type change struct {
	// key is the name as it stands in the patch, domain and id are its parts.
	key        Name
	domain, id resourceapi.QualifiedName
	// attribute is nil if the attribute is removed.
	attribute *resourceapi.DeviceAttribute
	capacity  *resourceapi.DeviceCapacity
}

// A Name is that of an attribute or a capacity. The two are different things even if
// they are written alike.
type Name struct {
	Capacity  bool
	Qualified resourceapi.FullyQualifiedName
}

// String writes the name with its list: capacity[gpu.example.com/memory].
func (n Name) String() string {
	if n.Capacity {
		return fmt.Sprintf("capacity[%s]", n.Qualified)
	}
	return fmt.Sprintf("attributes[%s]", n.Qualified)
}

// addChanges takes from the patch what a slice could have. A value that no slice could
// have would make every expression fail that looks at the device.
func (p *Patch) addChanges() {
	devices := &p.Object.Spec.Devices
	for _, name := range slices.Sorted(maps.Keys(devices.Attributes)) {
		value := devices.Attributes[name]
		c := change{key: Name{Qualified: name}}
		if value.NullValue == nil {
			c.attribute = &value.DeviceAttribute
		}
		p.addChange(c, attributeFault(value))
	}
	for _, name := range slices.Sorted(maps.Keys(devices.Capacity)) {
		value := devices.Capacity[name]
		p.addChange(change{key: Name{Capacity: true, Qualified: name}, capacity: &value}, "")
	}
}

func (p *Patch) addChange(c change, fault string) {
	domain, id, qualified := strings.Cut(string(c.key.Qualified), "/")
	if !qualified || len(domain) > resourceapi.DeviceMaxDomainLength || len(content.IsDNS1123Subdomain(domain)) > 0 ||
		len(id) > resourceapi.DeviceMaxIDLength || len(content.IsCIdentifier(id)) > 0 {
		fault = "the name is not fully qualified: write a DNS subdomain, a slash and a C identifier, such as gpu.example.com/model"
	}
	if fault != "" {
		p.Problems = append(p.Problems, Problem{InvalidValue, c.key.Qualified, "spec.devices." + c.key.String() + ": " + fault})
		return
	}
	c.domain, c.id = resourceapi.QualifiedName(domain), resourceapi.QualifiedName(id)
	p.changes = append(p.changes, c)
}

// attributeFault says why no slice could have the value, "" if one could.
func attributeFault(a v1alpha1.NullableDeviceAttribute) string {
	set := countTrue(a.NullValue != nil, a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil)
	switch {
	case set != 1:
		return fmt.Sprintf(`has %d known values, must have one: int, bool, string, version, a list of these, or "null": {} to remove the attribute`, set)
	case a.NullValue != nil:
		return ""
	case values(&a.DeviceAttribute) == 0:
		return "the list is empty, must have at least one value"
	}
	return textFault(&a.DeviceAttribute)
}

func textFault(a *resourceapi.DeviceAttribute) string {
	texts, versions := a.StringValues, a.VersionValues
	if a.StringValue != nil {
		texts = []string{*a.StringValue}
	}
	if a.VersionValue != nil {
		versions = []string{*a.VersionValue}
	}
	for _, text := range texts {
		if len(text) > resourceapi.DeviceAttributeMaxValueLength {
			return fmt.Sprintf("the text has %d bytes, must have at most %d", len(text), resourceapi.DeviceAttributeMaxValueLength)
		}
	}
	for _, version := range versions {
		if _, err := semver.Parse(version); err != nil || len(version) > resourceapi.DeviceAttributeMaxValueLength {
			return fmt.Sprintf("%q is no version: write it as semver.org 2.0.0 says, such as 12.4.0, in at most %d bytes", version, resourceapi.DeviceAttributeMaxValueLength)
		}
	}
	return ""
}

func countTrue(conditions ...bool) (n int) {
	for _, is := range conditions {
		if is {
			n++
		}
	}
	return n
}

// values counts the values of an attribute, the items of lists singly.
func values(a *resourceapi.DeviceAttribute) int {
	if n := len(a.IntValues) + len(a.BoolValues) + len(a.StringValues) + len(a.VersionValues); n > 0 || isList(a) {
		return n
	}
	return 1
}

func isList(a *resourceapi.DeviceAttribute) bool {
	return a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil
}
