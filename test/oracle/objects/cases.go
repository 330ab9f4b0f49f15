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
		stored, err := tree(old)
		if err != nil {
			return c, err
		}
		if same, is := r.stored(object, obj, graft); is && r.chance(0.3) {
			// What is wrong was stored so, and stays as it is.
			object, stored = same, clone(same).(map[string]any)
		} else if spoiled, is := r.stored(stored, obj, graft); is && r.chance(0.2) {
			stored = spoiled
		}
		SetTimes(stored)
		if c.Old, err = json.Marshal(stored); err != nil {
			return c, err
		}
	}
	for range pick(r, 0, 0, 1, 1, 1, 1, 2, 3) {
		Spoil(r.Rand, object, graft)
	}
	c.Object, err = json.Marshal(object)
	return c, err
}

// stored is a copy of object with a value changed, as it may be stored: not always valid,
// but under a name in a namespace, and in a form that can be read into the type of obj.
func (r random) stored(object map[string]any, obj any, donor map[string]any) (map[string]any, bool) {
	spoiled := clone(object).(map[string]any)
	Spoil(r.Rand, spoiled, donor)
	if meta, is := object["metadata"].(map[string]any); is {
		spoiled["metadata"] = clone(meta)
	}
	data, err := json.Marshal(spoiled)
	return spoiled, err == nil && json.Unmarshal(data, reflect.New(reflect.TypeOf(obj).Elem()).Interface()) == nil
}

// SetTimes gives the taints of a stored object the time that the API server has given
// them when it was written, and gives them whenever it is read.
func SetTimes(object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	taints := []any{spec["taint"]}
	devices, _ := spec["devices"].([]any)
	for _, device := range devices {
		fields, _ := device.(map[string]any)
		list, _ := fields["taints"].([]any)
		taints = append(taints, list...)
	}
	for _, taint := range taints {
		if fields, is := taint.(map[string]any); is && fields["timeAdded"] == nil {
			fields["timeAdded"] = "2023-07-22T04:26:40Z"
		}
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
