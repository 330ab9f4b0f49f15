package tracker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// slice makes a ResourceSlice with devices that have an attribute each.
func slice(name, driver, pool string, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("slice-" + name)},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}},
	}
	for _, name := range devices {
		model := "model-" + name
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:       name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	return s
}

// selector makes one of "driver", "pool" and "device"; "" leaves a criterion out.
func selector(driver, pool, device string) *resourceapi.DeviceTaintSelector {
	s := &resourceapi.DeviceTaintSelector{}
	for value, field := range map[*string]**string{&driver: &s.Driver, &pool: &s.Pool, &device: &s.Device} {
		if *value != "" {
			*field = value
		}
	}
	return s
}

// taintRule makes a DeviceTaintRule.
func taintRule(name string, selector *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("rule-" + name)},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: selector,
			Taint:          resourceapi.DeviceTaint{Key: "example.com/" + name, Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &at},
		},
	}
}

// driverTaint adds a taint of the driver to all devices of a slice.
func driverTaint(s *resourceapi.ResourceSlice, key string) *resourceapi.ResourceSlice {
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].Taints = append(s.Spec.Devices[i].Taints, resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNone})
	}
	return s
}

// world makes random objects out of few names, so that they meet.
type world struct {
	*rand.Rand
	version int
	// patches is true if there are patches and classes, too.
	patches bool
}

func newWorld(seed uint64) *world { return &world{Rand: rand.New(rand.NewPCG(seed, 2))} }

func (w *world) some(of string, n int) string { return of + strconv.Itoa(w.IntN(n)) }

func (w *world) maybe(of string, n int) string {
	if w.IntN(2) == 0 {
		return ""
	}
	return w.some(of, n)
}

func (w *world) slice(name string) *resourceapi.ResourceSlice {
	var devices []string
	for i := range w.IntN(5) {
		if w.IntN(4) > 0 {
			devices = append(devices, fmt.Sprintf("dev%d", i))
		}
	}
	s := slice(name, w.some("driver", 3), w.some("pool", 3), devices...)
	s.Spec.Pool.Generation = int64(w.IntN(3))
	s.Spec.Pool.ResourceSliceCount = s.Spec.Pool.Generation + 1 // the same in all slices of a generation
	if w.IntN(3) == 0 {
		driverTaint(s, w.some("example.com/own", 2))
	}
	w.version++
	s.ResourceVersion = strconv.Itoa(w.version)
	return s
}

func (w *world) rule(name string) *resourceapi.DeviceTaintRule {
	r := taintRule(name, selector(w.maybe("driver", 3), w.maybe("pool", 3), w.maybe("dev", 5)))
	if w.IntN(10) == 0 {
		r.Spec.DeviceSelector = nil
	}
	r.Spec.Taint.Value = w.some("value", 2)
	w.version++
	r.ResourceVersion = strconv.Itoa(w.version)
	return r
}

// change makes a random change of one of n slices and m rules.
func (w *world) change(n, m int) (objectKey, any) {
	if w.patches && w.IntN(3) == 0 {
		if w.IntN(4) == 0 {
			key := objectKey{ClassKind, w.some("class", 2)}
			if w.IntN(3) == 0 {
				return key, nil
			}
			return key, w.class(key.name)
		}
		key := objectKey{PatchKind, w.some("patch", m)}
		if w.IntN(3) == 0 {
			return key, nil
		}
		return key, w.patch(key.name)
	}
	if w.IntN(n+m) < n {
		key := objectKey{SliceKind, w.some("slice", n)}
		if w.IntN(4) == 0 {
			return key, nil
		}
		return key, w.slice(key.name)
	}
	key := objectKey{RuleKind, w.some("rule", m)}
	if w.IntN(3) == 0 {
		return key, nil
	}
	return key, w.rule(key.name)
}

// The expressions of random filters; see the naive one.
const (
	isDev1 = `device.attributes[device.driver].model == "model-dev1"`
	fails  = `device.attributes["none.example.com"].model == "x"`
)

func cel(expressions ...string) (selectors []resourceapi.DeviceSelector) {
	for _, expression := range expressions {
		selectors = append(selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return selectors
}

func (w *world) class(name string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if w.IntN(2) == 0 {
		class.Spec.Selectors = cel(isDev1)
	}
	return class
}

func (w *world) patch(name string) *v1alpha1.ResourceSlicePatch {
	p := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("patch-" + name), CreationTimestamp: metav1.Unix(int64(w.IntN(3)), 0),
	}}
	w.version++
	p.Generation = int64(w.version)
	s := selector(w.maybe("driver", 3), w.maybe("pool", 3), w.maybe("dev", 5))
	filter := &v1alpha1.DevicePatchFilter{Driver: s.Driver, Pool: s.Pool, Device: s.Device}
	switch w.IntN(6) {
	case 0:
		filter.Selectors = cel(isDev1)
	case 1:
		filter.Selectors = cel(fails)
	case 2:
		class := w.some("class", 2)
		filter.DeviceClassName = &class
	}
	priority := int64(w.IntN(2))
	p.Spec.Devices = v1alpha1.DevicePatch{Filter: filter, Priority: &priority, Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{}}
	for _, key := range []string{"example.com/color", "driver0/model", "driver1/model"} {
		switch w.IntN(4) {
		case 0:
			p.Spec.Devices.Attributes[resourceapi.FullyQualifiedName(key)] = v1alpha1.NullableDeviceAttribute{NullValue: &v1alpha1.NullValue{}}
		case 1, 2:
			value := w.some("value", 3)
			p.Spec.Devices.Attributes[resourceapi.FullyQualifiedName(key)] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}}
		}
	}
	return p
}
