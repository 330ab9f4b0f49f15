package tracker

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// A SourceKind says what a taint or a value of a device comes from.
type SourceKind string

const (
	// DriverSource is the driver that publishes the device.
	DriverSource SourceKind = "driver"
	// RuleSource is a DeviceTaintRule.
	RuleSource SourceKind = "rule"
	// PatchSource is a ResourceSlicePatch.
	PatchSource SourceKind = "patch"
)

// A Source says where a taint or a value of a device comes from.
type Source struct {
	Kind SourceKind `json:"kind"`
	// Name is the name of the driver, of the DeviceTaintRule or of the
	// ResourceSlicePatch.
	Name string `json:"name"`
	// UID is that of the rule or patch, empty for a driver.
	UID types.UID `json:"uid,omitempty"`
}

// String returns "rule/NAME".
func (s Source) String() string { return string(s.Kind) + "/" + s.Name }

func compareRules(a, b *rule) int { return cmp.Compare(a.source.Name, b.source.Name) }
