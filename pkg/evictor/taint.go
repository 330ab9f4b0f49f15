package evictor

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// DeviceID names a device. A name counts only within its pool, a pool within its
// driver.
type DeviceID = usage.DeviceID

// A Taint is one effective taint of a device, and where it comes from.
type Taint struct {
	resourceapi.DeviceTaint
	// Rule is the DeviceTaintRule that sets the taint. Its zero value says that the
	// driver publishes it.
	Rule Rule
	// Index is the place of the taint among those that the driver publishes for the
	// device.
	Index int
	// Since is used where DeviceTaint.TimeAdded is nil, which an API server without
	// defaulting of taints leaves behind: when the rule was created, or when the taint
	// was first seen.
	Since time.Time
}

// A Rule identifies one life of a DeviceTaintRule: who deletes and recreates one under
// the same name has another.
type Rule struct {
	Name string
	UID  types.UID
}

// FromRule says whether a DeviceTaintRule sets the taint, not the driver.
func (t Taint) FromRule() bool { return t.Rule != Rule{} }

// equal says whether two taints are alike in everything.
func (t *Taint) equal(u *Taint) bool {
	return t.Key == u.Key && t.Value == u.Value && t.Effect == u.Effect && t.TimeAdded.Equal(u.TimeAdded) &&
		t.Rule == u.Rule && t.Index == u.Index && t.Since.Equal(u.Since)
}

// String names the taint as kubectl does for those of nodes, and its origin.
func (t Taint) String() string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	text += ":" + string(t.Effect)
	if t.FromRule() {
		return fmt.Sprintf("%s of DeviceTaintRule %s", text, t.Rule.Name)
	}
	return text + " of the driver"
}

// Taints looks up the effective taints of a device: those that its driver publishes in
// the newest complete generation of the pool, then those of the DeviceTaintRules that
// select the device by name, whether it is published or not. An empty result is a
// healthy or unknown device. Taints with other effects than NoExecute may be among
// them and do not count.
type Taints interface {
	Taints(DeviceID) []Taint
}

// TaintsFunc is a function as [Taints].
type TaintsFunc func(DeviceID) []Taint

// Taints calls the function.
func (f TaintsFunc) Taints(device DeviceID) []Taint { return f(device) }
