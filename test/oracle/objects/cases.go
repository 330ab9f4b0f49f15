package objects

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// gatesBlock is how many neighbours have the same feature gates, since a change of
// gates stops the oracle for a moment.
const gatesBlock = 500

// Case returns the case of a seed and a number.
func Case(seed, number uint64) (wire.Case, error) {
	r := random{Rand: rand.New(rand.NewPCG(seed, number))}
	if r.chance(0.3) {
		r.wild = 0.02
	}
	c := wire.Case{ID: fmt.Sprintf("%d/%d", seed, number), Op: wire.Create, Admin: true}
	c.Gates, c.Full = gates(seed, number/gatesBlock)
	old, obj := r.pair(&c)
	donor := r.object()
	object, err := tree(obj)
	if err != nil {
		return c, err
	}
	graft, err := tree(donor)
	if err != nil {
		return c, err
	}
	if c.Op == wire.Update {
		if c.Old, err = r.old(old, graft); err != nil {
			return c, err
		}
	}
	for range pick(r, 0, 0, 1, 1, 1, 1, 2, 3) {
		Spoil(r.Rand, object, graft)
	}
	c.Object, err = json.Marshal(object)
	return c, err
}

// old is the stored object of an update. It is not always valid itself, but it can be
// read.
func (r random) old(obj any, donor map[string]any) (json.RawMessage, error) {
	setTimes(obj)
	stored, err := json.Marshal(obj)
	if err != nil || !r.chance(0.2) {
		return stored, err
	}
	spoiled, err := parse(stored)
	if err != nil {
		return nil, err
	}
	original := clone(spoiled).(map[string]any)
	Spoil(r.Rand, spoiled, donor)
	// Whatever is wrong with it, it is stored under a name in a namespace.
	if meta, is := original["metadata"].(map[string]any); is {
		spoiled["metadata"] = clone(meta)
	}
	data, err := json.Marshal(spoiled)
	if err != nil || json.Unmarshal(data, reflect.New(reflect.TypeOf(obj).Elem()).Interface()) != nil {
		return stored, err
	}
	return data, nil
}

// setTimes gives the taints of a stored object the time that the API server has given
// them.
func setTimes(obj any) {
	added := metav1.Unix(1690000000, 0)
	set := func(taint *resourceapi.DeviceTaint) {
		if taint.TimeAdded == nil {
			taint.TimeAdded = &added
		}
	}
	switch obj := obj.(type) {
	case *resourceapi.DeviceTaintRule:
		set(&obj.Spec.Taint)
	case *resourceapi.ResourceSlice:
		for i := range obj.Spec.Devices {
			for j := range obj.Spec.Devices[i].Taints {
				set(&obj.Spec.Devices[i].Taints[j])
			}
		}
	}
}

// gates chooses the feature gates of a block: mostly all are on, since what is off
// is dropped; or the defaults, in which case the answers say what was dropped.
func gates(seed, block uint64) (gates map[string]bool, full bool) {
	switch (seed + block) % 8 {
	case 0:
		return nil, true
	default:
		return map[string]bool{wire.AllDRA: true}, false
	}
}

// pair makes an object, and for an update what is stored before.
func (r random) pair(c *wire.Case) (old, obj any) {
	obj = r.object()
	if r.chance(0.75) {
		return nil, obj
	}
	c.Op = wire.Update
	claim, isClaim := obj.(*resourceapi.ResourceClaim)
	if isClaim && r.chance(0.7) {
		c.Subresource = "status"
		before := claim.DeepCopy()
		r.allocate(claim)
		if r.chance(0.4) {
			before = claim.DeepCopy()
		}
		return before, claim
	}
	rule, isRule := obj.(*resourceapi.DeviceTaintRule)
	if isRule && r.chance(0.3) {
		c.Subresource = "status"
		before := rule.DeepCopy()
		rule.Status.Conditions = some(r, resourceapi.DeviceTaintRuleStatusMaxConditions, r.condition)
		return before, rule
	}
	return obj, obj
}

// object makes an object of any kind, the kinds with the most rules most often.
func (r random) object() (obj any) {
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: kind}
	}
	switch n := r.IntN(100); {
	case n < 45:
		slice := r.slice()
		slice.TypeMeta = typed("ResourceSlice")
		return slice
	case n < 75:
		claim := r.claim()
		claim.TypeMeta = typed("ResourceClaim")
		return claim
	case n < 85:
		template := r.template()
		template.TypeMeta = typed("ResourceClaimTemplate")
		return template
	case n < 90:
		class := r.deviceClass()
		class.TypeMeta = typed("DeviceClass")
		return class
	default:
		rule := r.taintRule()
		rule.TypeMeta = typed("DeviceTaintRule")
		return rule
	}
}

// tree turns an object into what its JSON says.
func tree(obj any) (map[string]any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return parse(data)
}
