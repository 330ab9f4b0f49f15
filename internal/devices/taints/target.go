package taints

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Target is one device, a pool, or a driver: what is empty is all of them.
type Target usage.DeviceID

// String is such as driver/pool/device, driver/pool or driver.
func (t Target) String() string {
	text := t.Driver
	for _, part := range []string{t.Pool, t.Device} {
		if part != "" {
			text += "/" + part
		}
	}
	return text
}

// Selector selects the target in a DeviceTaintRule.
func (t Target) Selector() *resourceapi.DeviceTaintSelector {
	part := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return &resourceapi.DeviceTaintSelector{Driver: part(t.Driver), Pool: part(t.Pool), Device: part(t.Device)}
}

// Has reports whether a device belongs to the target.
func (t Target) Has(id usage.DeviceID) bool {
	return (t.Driver == "" || t.Driver == id.Driver) && (t.Pool == "" || t.Pool == id.Pool) && (t.Device == "" || t.Device == id.Device)
}

// maxCandidates is how many targets an error names.
const maxCandidates = 8

// In returns a function that reports whether one of the targets has a device.
func In(targets []Target) func(usage.DeviceID) bool {
	return func(id usage.DeviceID) bool {
		return slices.ContainsFunc(targets, func(t Target) bool { return t.Has(id) })
	}
}

// An unknownError says that no device, pool or driver has a name.
type unknownError string

func (e unknownError) Error() string { return string(e) }

// alike are the names of devices, pools and drivers that are written with as many parts as a name.
func alike(name string, devices iter.Seq[usage.DeviceID]) []string {
	parts, found := strings.Count(name, "/")+1, map[string]bool{}
	for id := range devices {
		full := []string{id.Driver, id.Pool, id.Device}
		found[strings.Join(full[:min(parts, len(full))], "/")] = true
		found[strings.Join(full[max(0, len(full)-parts):], "/")] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Resolve finds what a name means among devices: driver, driver/pool and
// driver/pool/device in full, or the end of a device's name, such as pool/device and device. A
// name that fits more than one is refused with all of them.
func Resolve(name string, devices iter.Seq[usage.DeviceID]) (Target, error) {
	if strings.Trim(name, "/") != name || name == "" {
		return Target{}, fmt.Errorf("%q: must be DRIVER, DRIVER/POOL or DRIVER/POOL/DEVICE", name)
	}
	full, partial := map[Target]struct{}{}, map[Target]struct{}{}
	for id := range devices {
		switch name {
		case id.Driver:
			full[Target{Driver: id.Driver}] = struct{}{}
		case id.Driver + "/" + id.Pool:
			full[Target{Driver: id.Driver, Pool: id.Pool}] = struct{}{}
		case id.String():
			full[Target(id)] = struct{}{}
		default:
			if strings.HasSuffix(id.String(), "/"+name) {
				partial[Target(id)] = struct{}{}
			}
		}
	}
	found := slices.SortedFunc(maps.Keys(full), compare)
	if len(found) == 0 {
		found = slices.SortedFunc(maps.Keys(partial), compare)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Target{}, unknownError(fmt.Sprintf(`no device, pool or driver %q; "dra-steward devices" lists them%s`, name, manifest.DidYouMean(name, alike(name, devices))))
	}
	var candidates []string
	for _, t := range found[:min(len(found), maxCandidates)] {
		candidates = append(candidates, t.String())
	}
	if rest := len(found) - len(candidates); rest > 0 {
		candidates = append(candidates, fmt.Sprintf("%d more", rest))
	}
	return Target{}, fmt.Errorf("%q matches %d devices: name one of %s", name, len(found), strings.Join(candidates, " or "))
}

func compare(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}

// effects are those that a taint can have.
func effects() []resourceapi.DeviceTaintEffect {
	return []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute}
}

// ParseTaint reads KEY[=VALUE]:EFFECT; the effect may be left out if it is optional.
func ParseTaint(text string, optional bool) (resourceapi.DeviceTaint, error) {
	what, effect, found := strings.Cut(text, ":")
	key, value, _ := strings.Cut(what, "=")
	taint := resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffect(effect)}
	if key == "" || !(optional && !found) && !slices.Contains(effects(), taint.Effect) {
		return taint, fmt.Errorf("%q: must be KEY[=VALUE]:EFFECT with the effect None, NoSchedule or NoExecute, such as example.com/maintenance:NoSchedule", text)
	}
	return taint, nil
}
