package campaign

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// A published slice has taints by device.
type published struct {
	name, driver, node string
	devices            []string
	taints             map[string][]*standing
}

// object is the slice as it is to be.
func (p *published) object() *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	slice.Spec.Driver, slice.Spec.NodeName = p.driver, &p.node
	slice.Spec.Pool = resourceapi.ResourcePool{Name: p.node, Generation: 1, ResourceSliceCount: 1}
	for _, name := range p.devices {
		device := resourceapi.Device{Name: name}
		for _, of := range p.taints[name] {
			device.Taints = append(device.Taints, of.Taint)
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

// create publishes the slice with its taints.
func (s *scene) create(ctx context.Context, p *published) error {
	_, err := s.w.write(ctx, func(ctx context.Context) error {
		_, err := s.w.ResourceV1().ResourceSlices().Create(ctx, p.object(), metav1.CreateOptions{})
		return existing(err)
	})
	return err
}

// update writes the taints of a slice. An earlier request that had no answer may have written
// them already.
func (s *scene) update(ctx context.Context, p *published) (m oracle.Moment, err error) {
	all, want := s.w.ResourceV1().ResourceSlices(), p.object()
	var have *resourceapi.ResourceSlice
	m, err = s.w.write(ctx, func(ctx context.Context) (err error) {
		if have, err = all.Get(ctx, p.name, metav1.GetOptions{}); err != nil || sameTaints(have, want) {
			return err
		}
		want.ResourceVersion = have.ResourceVersion
		have, err = all.Update(ctx, want, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return m, err
	}
	for _, device := range have.Spec.Devices {
		for i, of := range p.taints[device.Name] {
			if err := of.stored(&device.Taints[i], m); err != nil {
				return m, fmt.Errorf("slice %s: %w", p.name, err)
			}
		}
	}
	return m, nil
}

func sameTaints(a, b *resourceapi.ResourceSlice) bool {
	return slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(a, b resourceapi.Device) bool {
		return slices.EqualFunc(a.Taints, b.Taints, sameTaint)
	})
}

// sameTaint ignores a time that the API server has added.
func sameTaint(have, want resourceapi.DeviceTaint) bool {
	return have.Key == want.Key && have.Value == want.Value && have.Effect == want.Effect &&
		(want.TimeAdded == nil || have.TimeAdded.Equal(want.TimeAdded))
}

// stored takes over the time that the API server stores. It fails unless that is the time of
// the request, or the write if it had none.
func (s *standing) stored(have *resourceapi.DeviceTaint, m oracle.Moment) error {
	switch want := s.Taint.TimeAdded; {
	case have.TimeAdded == nil, want != nil && !have.TimeAdded.Equal(want),
		want == nil && (have.TimeAdded.Time.Before(m.Earliest.Truncate(time.Second)) || have.TimeAdded.After(m.Latest)):
		return fmt.Errorf("the API server has stored the time %v of a taint with %v, written from %v to %v", have.TimeAdded, want, m.Earliest, m.Latest)
	}
	s.Taint.TimeAdded = have.TimeAdded
	return nil
}

// taintDevice adds a taint to a device. The first device of each slice stays good.
func (s *scene) taintDevice(ctx context.Context) (err error) {
	p := pick(s, s.published...)
	device := pick(s, p.devices[1:]...)
	if len(p.taints[device]) == resourceapi.DeviceTaintsMaxLength {
		return nil
	}
	selector := &resourceapi.DeviceTaintSelector{Driver: &p.driver, Pool: &p.node, Device: &device}
	added := &standing{Standing: oracle.Standing{Source: "slice " + p.name, Selector: selector, Taint: s.taint()}, brief: s.chance(15)}
	p.taints[device] = append(p.taints[device], added)
	added.Begin, err = s.update(ctx, p)
	return err
}

// untaintDevice removes a taint of a device.
func (s *scene) untaintDevice(ctx context.Context) error {
	type taint struct {
		of     *published
		device string
		index  int
	}
	var all []taint
	for _, p := range s.published {
		for _, device := range p.devices {
			for i, of := range p.taints[device] {
				if of.removable() {
					all = append(all, taint{p, device, i})
				}
			}
		}
	}
	if len(all) == 0 {
		return s.createPod(ctx)
	}
	one := pick(s, all...)
	of := one.of.taints[one.device][one.index]
	one.of.taints[one.device] = slices.Delete(slices.Clone(one.of.taints[one.device]), one.index, one.index+1)
	m, err := s.update(ctx, one.of)
	s.ended(of, m)
	return err
}

// publishAgain deletes a slice, and with it its taints, and publishes it without any.
func (s *scene) publishAgain(ctx context.Context) error {
	p := pick(s, s.published...)
	for _, device := range p.devices {
		if slices.ContainsFunc(p.taints[device], func(of *standing) bool { return time.Since(of.Begin.Latest) < lasting/3 }) {
			return s.createPod(ctx)
		}
	}
	m, err := s.w.write(ctx, func(ctx context.Context) error {
		return missing(s.w.ResourceV1().ResourceSlices().Delete(ctx, p.name, metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	for _, device := range p.devices {
		for _, of := range p.taints[device] {
			s.ended(of, m)
		}
	}
	clear(p.taints)
	return s.create(ctx, p)
}

// A rule is a DeviceTaintRule.
type rule struct {
	standing
	name string
}

// selector selects the devices of a random one's driver, pool or name.
func (s *scene) selector() *resourceapi.DeviceTaintSelector {
	p := pick(s, s.published...)
	device := pick(s, p.devices...)
	switch n := s.random.IntN(100); {
	case n < 2:
		return nil
	case n < 3:
		return &resourceapi.DeviceTaintSelector{}
	case n < 4:
		return &resourceapi.DeviceTaintSelector{Driver: &p.driver}
	case n < 9:
		return &resourceapi.DeviceTaintSelector{Device: &device}
	case n < 20:
		return &resourceapi.DeviceTaintSelector{Pool: &p.node}
	case n < 35:
		return &resourceapi.DeviceTaintSelector{Pool: &p.node, Device: &device}
	}
	return &resourceapi.DeviceTaintSelector{Driver: &p.driver, Pool: &p.node, Device: &device}
}

func (s *scene) createRule(ctx context.Context) error {
	r := &rule{name: s.name("rule")}
	r.standing = standing{Standing: oracle.Standing{Source: "rule " + r.name, Selector: s.selector(), Taint: s.taint()}, brief: s.chance(15)}
	object := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	object.Spec.DeviceSelector, object.Spec.Taint = r.Selector, r.Taint
	var have *resourceapi.DeviceTaintRule
	var err error
	r.Begin, err = s.w.write(ctx, func(ctx context.Context) (err error) {
		have, err = s.w.ResourceV1().DeviceTaintRules().Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			have, err = s.w.ResourceV1().DeviceTaintRules().Get(ctx, r.name, metav1.GetOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	s.rules = append(s.rules, r)
	if r.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		select {
		case s.tainted <- struct{}{}:
		default:
		}
	}
	return r.stored(&have.Spec.Taint, r.Begin)
}

// changeRule changes the effect, the key, the time or the selector of a rule. With another
// effect and without another time, the API server sets the time of the change.
func (s *scene) changeRule(ctx context.Context) error {
	i := slices.IndexFunc(s.rules, func(r *rule) bool { return r.removable() })
	if i < 0 {
		return s.createPod(ctx)
	}
	r := s.rules[i]
	next, sent := r.standing, r.Taint
	switch s.random.IntN(4) {
	case 0:
		sent.Key = s.key()
	case 1:
		next.Selector = s.selector()
	case 2:
		sent.TimeAdded = s.past40()
	default:
		sent.Effect = pick(s, resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute)
	}
	next.Taint, next.brief = sent, s.chance(15)
	if sent.Effect != r.Taint.Effect {
		next.Taint.TimeAdded = nil // set by the API server
	}
	var have *resourceapi.DeviceTaintRule
	m, err := s.w.write(ctx, func(ctx context.Context) (err error) {
		all := s.w.ResourceV1().DeviceTaintRules()
		have, err = all.Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		have.Spec.DeviceSelector = next.Selector
		if !sameTaint(have.Spec.Taint, next.Taint) {
			have.Spec.Taint = sent
		}
		have, err = all.Update(ctx, have, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	s.ended(&r.standing, m)
	next.Begin, next.End = m, oracle.Moment{}
	r.standing = next
	return r.stored(&have.Spec.Taint, m)
}

func (s *scene) deleteRule(ctx context.Context) error {
	var old []int
	for i, r := range s.rules {
		if r.removable() {
			old = append(old, i)
		}
	}
	if len(old) == 0 {
		return s.createPod(ctx)
	}
	i := pick(s, old...)
	r := s.rules[i]
	m, err := s.w.write(ctx, func(ctx context.Context) error {
		return missing(s.w.ResourceV1().DeviceTaintRules().Delete(ctx, r.name, metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	s.ended(&r.standing, m)
	s.rules = slices.Delete(s.rules, i, i+1)
	return nil
}
