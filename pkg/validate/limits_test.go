package validate

import (
	"reflect"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// constants are upstream's limits by name.
var constants = map[string]int{
	"ResourceSliceMaxDevices":                          resourceapi.ResourceSliceMaxDevices,
	"ResourceSliceMaxDevicesWithAdvancedFeatures":      resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures,
	"ResourceSliceMaxAttributesAndCapacitiesPerDevice": resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice,
	"ResourceSliceMaxAttributeValuesPerDevice":         resourceapi.ResourceSliceMaxAttributeValuesPerDevice,
	"DeviceTaintsMaxLength":                            resourceapi.DeviceTaintsMaxLength,
	"DeviceTolerationsMaxLength":                       resourceapi.DeviceTolerationsMaxLength,
	"DeviceRequestsMaxSize":                            resourceapi.DeviceRequestsMaxSize,
	"FirstAvailableDeviceRequestMaxSize":               resourceapi.FirstAvailableDeviceRequestMaxSize,
	"AllocationResultsMaxSize":                         resourceapi.AllocationResultsMaxSize,
}

// TestLimitFields: every limit is described, can be configured under the name that is
// documented, is upstream's when it is zero, and can be lowered but not raised.
func TestLimitFields(t *testing.T) {
	described := map[string]LimitField{}
	for _, f := range LimitFields() {
		described[f.Name] = f
	}
	configured := reflect.TypeFor[v1alpha1.Limits]()
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Limits]()) {
		name, _, _ := strings.Cut(configured.Field(i).Tag.Get("json"), ",")
		t.Run(name, func(t *testing.T) {
			f, known := described[name]
			delete(described, name)
			if !known || configured.Field(i).Name != field.Name || f.Doc == "" {
				t.Fatalf("%s is not in LimitFields, not in v1alpha1.Limits or has no documentation", field.Name)
			}
			if upstream, is := constants[f.Constant]; !is || f.Upstream != upstream {
				t.Errorf("%d is not the constant %s, %d", f.Upstream, f.Constant, upstream)
			}
			checkLimit(t, f, i)
		})
	}
	for name := range described {
		t.Errorf("%s is described and no field of Limits", name)
	}
}

// checkLimit tries values of the i-th field.
func checkLimit(t *testing.T, f LimitField, i int) {
	t.Helper()
	for value, valid := range map[int]bool{-1: false, 0: true, 1: true, f.Upstream: true, f.Upstream + 1: false} {
		var c v1alpha1.Limits
		reflect.ValueOf(&c).Elem().Field(i).SetInt(int64(value))
		limits := Limits(c)
		err := limits.Validate()
		if (err == nil) != valid {
			t.Errorf("%d: %v", value, err)
		}
		for _, word := range []string{"limits." + f.Name, f.Constant} {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%d: the error lacks %s: %v", value, word, err)
			}
		}
		want := value
		if value == 0 || value > f.Upstream {
			want = f.Upstream
		}
		if got := reflect.ValueOf(limits.forProfile(apiserver.Profile{})).Field(i).Int(); got != int64(want) {
			t.Errorf("%d stands for %d, want %d", value, got, want)
		}
	}
}

// TestAllWrongLimitsAtOnce: a person corrects a file once.
func TestAllWrongLimitsAtOnce(t *testing.T) {
	err := Limits{DevicesPerSlice: 1000, TaintsPerDevice: -3}.Validate()
	for _, word := range []string{"limits.devicesPerSlice: Invalid value: 1000", "between 1 and 128", "limits.taintsPerDevice: Invalid value: -3", "between 1 and 16"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error lacks %q: %v", word, err)
		}
	}
}
