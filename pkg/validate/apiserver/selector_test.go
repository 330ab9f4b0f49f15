package apiserver_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
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
	on := func(gate apiserver.Gate) map[apiserver.Gate]bool { return map[apiserver.Gate]bool{gate: true} }
	remembered := &apiserver.Expressions{}
	for _, test := range []struct {
		expression string
		profile    apiserver.Profile
		stored     bool
		good       bool
	}{
		{lists, apiserver.Profile{Minor: 34}, false, false},
		{lists, apiserver.Profile{Minor: 35}, false, true},
		{`[1, 3].isSorted()`, apiserver.Profile{Minor: 34}, false, true},
		{multi, apiserver.Profile{Minor: 35}, false, false},
		{multi, apiserver.Profile{Minor: 35}, true, true},
		{multi, apiserver.Profile{Minor: 34}, true, false},
		{multi, apiserver.Profile{Minor: 35, Gates: on("DRAConsumableCapacity")}, false, true},
		{multi, apiserver.Profile{}, false, true},
		{items, apiserver.Profile{}, false, false},
		{items, apiserver.Profile{Gates: on("DRAListTypeAttributes")}, false, true},
		{wrong, apiserver.Profile{}, true, true},
		{wrong, apiserver.Profile{Minor: 36}, true, false},
		{wrong, apiserver.Profile{}, false, false},
	} {
		class := &resourceapi.DeviceClass{}
		class.Name = "gpu"
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: test.expression}}}
		old := &resourceapi.DeviceClass{}
		old.Name = "gpu"
		if test.stored {
			old = class.DeepCopy()
		}
		for _, expressions := range []*apiserver.Expressions{nil, remembered, remembered} {
			errs := apiserver.DeviceClass().ValidateUpdate(old, class, apiserver.Conditions{Profile: test.profile, Expressions: expressions})
			if good := len(errs) == 0; good != test.good || !good && errs[0].Type != field.ErrorTypeInvalid {
				t.Errorf("%s for %+v, stored %t: %v", test.expression, test.profile, test.stored, errs)
			}
		}
	}
}
