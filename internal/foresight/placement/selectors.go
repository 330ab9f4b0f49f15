package placement

import (
	"context"
	"errors"
	"fmt"
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/memory/sizedcache"
)

// A Cache has compiled expressions: within the bounds of package selector, and for the
// allocator, which compiles them by itself and without these bounds.
type Cache struct {
	*selector.Cache
	allocator *dracel.Cache
	// checked are the outcomes of expressions on the devices of slices: nil, or an error.
	checked *sizedcache.Cache[checkedOn, error]
}

type checkedOn struct {
	expression string
	slice      *resourceapi.ResourceSlice
}

const (
	// celEntries bounds how many expressions are remembered for the allocator, checkedBytes what
	// is remembered of them.
	celEntries   = 1000
	checkedBytes = 8 << 20
	// costPerStep is the cost of an evaluation that takes about as long as a step of the
	// allocator.
	costPerStep = 100
)

// NewCache returns an empty cache.
func NewCache(features structured.Features) *Cache {
	f := dracel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes}
	return &Cache{selector.NewCache(f), dracel.NewCache(celEntries, f), sizedcache.New[checkedOn, error](checkedBytes)}
}

// checkSelectors returns an error if the allocator would have to evaluate what is too expensive.
// Expressions of which that is not known are evaluated here first.
func (a Allocator) checkSelectors(ctx context.Context, claims []*resourceapi.ResourceClaim, offered []*resourceapi.ResourceSlice, left *int) error {
	for place, expression := range a.expressions(claims) {
		if a.Cache.Cheap(expression) {
			continue
		}
		if compiled := a.Cache.GetOrCompile(expression); selector.TooExpensive(compiled) {
			return fmt.Errorf("%w: %s %s", ErrSlow, place, compiled.Error.Detail)
		}
		for _, slice := range offered {
			if err := a.Cache.check(ctx, expression, slice, left); err != nil {
				return fmt.Errorf("%w: %s cannot be evaluated: %w", ErrSlow, place, err)
			}
		}
	}
	return ctx.Err()
}

// expressions yields those that the allocator evaluates for claims, with their places.
func (a Allocator) expressions(claims []*resourceapi.ResourceClaim) iter.Seq2[string, string] {
	return func(yield func(place, expression string) bool) {
		all := func(of string, selectors []resourceapi.DeviceSelector) bool {
			for i, s := range selectors {
				if s.CEL != nil && !yield(fmt.Sprintf("selector %d of %s", i, of), s.CEL.Expression) {
					return false
				}
			}
			return true
		}
		request := func(claim *resourceapi.ResourceClaim, name, class string, selectors []resourceapi.DeviceSelector) bool {
			if found, err := a.Classes.Get(class); err == nil && !all("DeviceClass "+class, found.Spec.Selectors) {
				return false
			}
			return all(fmt.Sprintf("request %s of claim %s", name, nameOf(claim)), selectors)
		}
		for _, claim := range claims {
			for _, r := range claim.Spec.Devices.Requests {
				if e := r.Exactly; e != nil && !request(claim, r.Name, e.DeviceClassName, e.Selectors) {
					return
				}
				for _, s := range r.FirstAvailable {
					if !request(claim, r.Name+"/"+s.Name, s.DeviceClassName, s.Selectors) {
						return
					}
				}
			}
		}
	}
}

// check evaluates an expression on the devices of a slice, as often as steps are left. Of the
// errors it returns that the expression is too expensive: of the others the allocator speaks.
func (c *Cache) check(ctx context.Context, expression string, slice *resourceapi.ResourceSlice, left *int) error {
	key := checkedOn{expression, slice}
	if known, is := c.checked.Get(key); is {
		return known
	}
	compiled := c.GetOrCompile(expression)
	if compiled.Error != nil {
		return nil
	}
	var outcome error
	for i := range slice.Spec.Devices {
		_, details, err := compiled.DeviceMatches(ctx, DeviceOf(slice.Spec.Driver, &slice.Spec.Devices[i]))
		if err := ctx.Err(); err != nil {
			return err
		}
		if details != nil && details.ActualCost() != nil {
			*left -= int(*details.ActualCost() / costPerStep)
		}
		if *left < 0 {
			return selector.ErrTooExpensive
		}
		if errors.Is(err, selector.ErrTooExpensive) {
			outcome = fmt.Errorf("device %s: %w", slice.Spec.Devices[i].Name, err)
			break
		}
	}
	c.checked.Add(key, outcome, int64(len(expression)))
	return outcome
}

// DeviceOf is a device as expressions see it.
func DeviceOf(driver string, d *resourceapi.Device) dracel.Device {
	return dracel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity}
}
