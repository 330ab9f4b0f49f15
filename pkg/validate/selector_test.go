package validate_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestExpressionsDependOnTheProfile: what compiles for one API server does not for
// another, and what is stored is spared.
func TestExpressionsDependOnTheProfile(t *testing.T) {
	const (
		lists = `[3, 1].sort() == [1, 3]`
		multi = `device.allowMultipleAllocations`
		items = `device.attributes["a.b"].x.exists(y, y == 1)`
		wrong = `device.`
	)
	on := func(gate validate.Gate) map[validate.Gate]bool { return map[validate.Gate]bool{gate: true} }
	remembered := &validate.Expressions{}
	for _, test := range []struct {
		expression string
		profile    validate.Profile
		stored     bool
		good       bool
	}{
		{lists, validate.Profile{Minor: 34}, false, false},
		{lists, validate.Profile{Minor: 35}, false, true},
		{`[1, 3].isSorted()`, validate.Profile{Minor: 34}, false, true},
		{multi, validate.Profile{Minor: 35}, false, false},
		{multi, validate.Profile{Minor: 35}, true, true},
		{multi, validate.Profile{Minor: 34}, true, false},
		{multi, validate.Profile{Minor: 35, Gates: on(validate.DRAConsumableCapacity)}, false, true},
		{multi, validate.Profile{}, false, true},
		{items, validate.Profile{}, false, false},
		{items, validate.Profile{Gates: on(validate.DRAListTypeAttributes)}, false, true},
		{wrong, validate.Profile{}, true, true},
		{wrong, validate.Profile{Minor: 36}, true, false},
		{wrong, validate.Profile{}, false, false},
	} {
		class := &resourceapi.DeviceClass{}
		class.Name = "gpu"
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: test.expression}}}
		old := &resourceapi.DeviceClass{}
		old.Name = "gpu"
		if test.stored {
			old = class.DeepCopy()
		}
		for _, expressions := range []*validate.Expressions{nil, remembered, remembered} {
			errs := validate.DeviceClass.Server().ServerUpdate(old, class, validate.Conditions{Profile: test.profile, Expressions: expressions})
			if good := len(errs) == 0; good != test.good || !good && errs[0].Type != field.ErrorTypeInvalid {
				t.Errorf("%s for %+v, stored %t: %v", test.expression, test.profile, test.stored, errs)
			}
		}
	}
}
