package review

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// Slices write ResourceSlicePatches into slices, and take them back.
type Slices interface {
	// Active reports whether slices without a record ([materialize.Annotation]) are of interest.
	Active() bool
	// Confirmed returns the slice of a write, without its record where nothing confirms that.
	Confirmed(ctx context.Context, incoming, old *resourceapi.ResourceSlice, now time.Time) *resourceapi.ResourceSlice
	// Merge returns what is to be stored of a write; old is nil on creation. acceptable says
	// why an API server or webhook would refuse a merged slice although it takes the driver's.
	Merge(ctx context.Context, incoming, old *resourceapi.ResourceSlice, now time.Time, acceptable func(published, merged *resourceapi.ResourceSlice) error) record.Merged
}

// materializeID is the Default of the changes that patches make.
const materializeID = "slice-patches"

// inCluster does what only the mutating webhook can.
func (k kindOf[T]) inCluster(r Reviewer, answer *Answer, object *T, req Request, old func() (*T, error), severities severities) error {
	if err := k.materialize(r, answer, object, old, req, severities); err != nil {
		return err
	}
	return k.preAdmission(r, answer, object, req, old, severities)
}

// materialize writes patches into the object if it is a slice. Whatever comes of it, the
// driver may publish.
func (k kindOf[T]) materialize(r Reviewer, answer *Answer, object *T, stored func() (*T, error), req Request, severities severities) error {
	slice, is := any(object).(*resourceapi.ResourceSlice)
	if !is || r.Slices == nil || !r.Slices.Active() && !hasOriginals(req.Object) && !hasOriginals(req.Old) {
		return nil
	}
	before, err := stored()
	if err != nil {
		return err
	}
	old, _ := any(before).(*resourceapi.ResourceSlice)
	confirmed := slice
	if r.PatchWriter == "" || req.User == nil || req.User.Username != r.PatchWriter {
		confirmed = r.Slices.Confirmed(req.context(), slice, old, req.Now)
	}
	merged := r.Slices.Merge(req.context(), confirmed, old, req.Now, func(published, merged *resourceapi.ResourceSlice) error {
		if err := newFault(published, merged, r.Profile); err != nil {
			return err
		}
		return r.newDenial(published, merged, severities)
	})
	answer.Changes = append(answer.Changes, sliceChanges(slice, merged.Slice)...)
	return nil
}

// hasOriginals is quick. It may report true for a slice without originals.
func hasOriginals(object []byte) bool { return bytes.Contains(object, []byte(record.Annotation)) }

// AcceptableSlice says why the newest API server would refuse a merged slice although it
// takes the published one.
func AcceptableSlice(published, merged *resourceapi.ResourceSlice) error {
	return newFault(published, merged, apiserver.Profile{})
}

// newFault returns what an API server says of a merged slice and not of the published one.
func newFault(published, merged *resourceapi.ResourceSlice, profile apiserver.Profile) error {
	conditions, server := apiserver.Conditions{Profile: profile}, validate.ResourceSlice().Upstream()
	if e := firstNew(published, merged, func(slice *resourceapi.ResourceSlice) field.ErrorList { return server.Validate(slice, conditions) }); e != nil {
		return fmt.Errorf("the API server would refuse it: %w", e)
	}
	return nil
}

// newDenial returns for what the validating webhook denies a merged slice and not the published
// one. It regards no exemptions: whoever writes a slice, the same is stored.
func (r Reviewer) newDenial(published, merged *resourceapi.ResourceSlice, severities severities) error {
	conditions, rules := validate.Conditions{Limits: r.Limits, Profile: r.Profile}, validate.ResourceSlice().InCluster()
	e := firstNew(published, merged, func(slice *resourceapi.ResourceSlice) field.ErrorList {
		return slices.DeleteFunc(rules.Validate(slice, conditions), func(e *field.Error) bool { return severities.of(e.Origin) != validate.Error })
	})
	if e != nil {
		return fmt.Errorf("denied with the patches: %w (rule %s)", e, e.Origin)
	}
	return nil
}

// firstNew returns the first error of a merged slice that the published one does not have, nil for
// none.
func firstNew(published, merged *resourceapi.ResourceSlice, check func(*resourceapi.ResourceSlice) field.ErrorList) *field.Error {
	after := check(merged)
	if len(after) == 0 {
		return nil
	}
	before := map[string]bool{}
	for _, e := range check(published) {
		before[e.Error()] = true
	}
	for _, e := range after {
		if !before[e.Error()] {
			return e
		}
	}
	return nil
}

// sliceChanges are the changes from one form of a slice to another that differs in
// annotations, attributes and capacities. Only those values are named that differ: of the
// rest, what a newer API server knows stays.
func sliceChanges(before, after *resourceapi.ResourceSlice) []mutate.Change {
	if before == after {
		return nil
	}
	c := changes{}
	for i := range before.Spec.Devices {
		a, b := &before.Spec.Devices[i], &after.Spec.Devices[i]
		at := fmt.Sprintf("/spec/devices/%d/", i)
		changed(&c, at+"attributes", a.Attributes, b.Attributes, func(a, b resourceapi.DeviceAttribute) bool {
			return record.Value{Attribute: &a}.Equal(record.Value{Attribute: &b})
		})
		changed(&c, at+"capacity", a.Capacity, b.Capacity, func(a, b resourceapi.DeviceCapacity) bool {
			return record.Value{Capacity: &a}.Equal(record.Value{Capacity: &b})
		})
	}
	changed(&c, "/metadata/annotations", before.Annotations, after.Annotations, func(a, b string) bool { return a == b })
	return c
}

type changes []mutate.Change

func changed[K ~string, V any](c *changes, pointer string, before, after map[K]V, equal func(a, b V) bool) {
	if before == nil && len(after) > 0 {
		*c = append(*c, mutate.Change{Default: materializeID, Pointer: pointer, Value: after})
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, has := after[k]; !has {
			*c = append(*c, mutate.Change{Default: materializeID, Pointer: pointer + "/" + escape.Replace(string(k)), Remove: true})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if v, had := before[k]; !had || !equal(v, after[k]) {
			*c = append(*c, mutate.Change{Default: materializeID, Pointer: pointer + "/" + escape.Replace(string(k)), Value: after[k]})
		}
	}
}
