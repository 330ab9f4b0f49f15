package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// drainGaps are the rules for a drain among the devices that exist.
var drainGaps = Table[*v1alpha1.DeviceDrain]{
	{
		ID: "drain-devices-exist",
		Doc: `The devices of a drain are published, and a selector finds some and fails on none.

A drain of a device that no slice has does no harm, and is most often a slip. A selector
that finds nothing waits for the first device. It only warns, since drivers may publish
something else tomorrow.`,
		Class:    Gap,
		Severity: Warning,
		Beyond:   true,
		Server:   "does not look",
		Source:   drainSource + "Which devices",
		Check:    drainDevicesExist,
	},
}

func drainDevicesExist(d *v1alpha1.DeviceDrain, c Conditions) (errs field.ErrorList) {
	if c.World == nil {
		return nil
	}
	for i, name := range d.Spec.Devices {
		if !published(c.World, name) {
			errs = append(errs, field.NotFound(drainSpec.Child("devices").Index(i), name.String()))
		}
	}
	if d.Spec.Selector == nil {
		return errs
	}
	compiler := &patch.Compiler{}
	if c.Expressions != nil {
		compiler = &c.Expressions.patches
	}
	at := drainSpec.Child("selector")
	found := compiler.Select(d.Spec.Selector, c.World.Slices(), maxTrialCost)
	switch {
	case len(found.Problems) > 0 || found.More: // of which other rules speak, or nobody can
	case found.Failures.Devices > 0:
		errs = append(errs, counted(at, found.Failures.Devices, "an expression fails for %s, so that nothing is drained; %s", devices(found.Failures.Devices), found.Failures.First))
	case len(found.Devices) == 0:
		errs = append(errs, field.Invalid(at, 0, "no device matches"))
	case len(found.Devices) > v1alpha1.DrainDevicesMax:
		errs = append(errs, counted(at, len(found.Devices), "matches %s: a drain has at most %d", devices(len(found.Devices)), v1alpha1.DrainDevicesMax))
	}
	return errs
}

// published tells whether a slice of the highest generation of a pool has a device.
func published(world World, name v1alpha1.DeviceName) bool {
	var newest int64
	found := false
	for _, slice := range world.Pool(name.Driver, name.Pool) {
		if slice.Spec.Pool.Generation < newest {
			continue
		}
		if slice.Spec.Pool.Generation > newest {
			newest, found = slice.Spec.Pool.Generation, false
		}
		for i := range slice.Spec.Devices {
			found = found || slice.Spec.Devices[i].Name == name.Device
		}
	}
	return found
}
