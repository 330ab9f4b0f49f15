package patch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Apply applies patches to a slice. It is Merge of what they match.
func Apply(slice *resourceapi.ResourceSlice, patches []*Patch) Result {
	result, _ := NewEvaluation(slice).Apply(context.Background(), patches) // without a limit there is no error
	return result
}

// Apply applies patches to the slice of the evaluation. It keeps only the results of
// their expressions. The error is that of ctx, or ErrUnfinished.
func (e *Evaluation) Apply(ctx context.Context, patches []*Patch) (Result, error) {
	matches, err := e.matches(ctx, slices.Values(patches))
	if err != nil {
		return Result{}, err
	}
	return mergeMatches(e.slice, matches), nil
}

// mergeMatches applies to a slice the patches that match devices of it, or failed to. It sorts
// matches, and changes neither the slice nor the patches. The result shares memory with them, so
// the caller must not modify it.
func mergeMatches(slice *resourceapi.ResourceSlice, matches []Match) Result {
	slices.SortStableFunc(matches, func(a, b Match) int { return comparePatches(a.Patch, b.Patch) })
	return write(slice, matches, false)
}

// write makes the result of matches, which are in the order of precedence.
func write(slice *resourceapi.ResourceSlice, matches []Match, storable bool) Result {
	r := Result{Slice: slice, Published: slice, matches: matches}
	plans := plans{matches: matches}
	w := writer{driver: resourceapi.QualifiedName(slice.Spec.Driver), storable: storable,
		crowded: len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures}
	var last string
	for i := range slice.Spec.Devices {
		plan := plans.of(i)
		if plan == nil {
			continue
		}
		if r.devices == nil {
			r.devices = make([]outcome, len(slice.Spec.Devices))
		}
		w.apply(plan, &slice.Spec.Devices[i])
		if last != string(w.effects) {
			last = string(w.effects)
		}
		r.devices[i] = outcome{plan, last}
		if w.changed {
			r.own().Spec.Devices[i] = w.device
		}
	}
	return r
}

// own makes the slice of the result a copy, for the first device that changes.
func (r *Result) own() *resourceapi.ResourceSlice {
	if r.Slice == r.Published {
		merged := *r.Published
		merged.Spec.Devices = slices.Clone(r.Published.Spec.Devices)
		r.Slice = &merged
	}
	return r.Slice
}

// A plan is what a set of patches does to a device, whichever it is.
type plan struct {
	entries []entry
}

// An entry is the winner of one attribute or capacity.
type entry struct {
	*change
	winner     *Patch
	suppressed []*Patch
}

// plans makes one plan for each set of patches that apply to a device.
type plans struct {
	matches []Match
	made    map[string]*plan
	set     []byte
}

// of returns the plan for a device, nil if no patch applies to it.
func (p *plans) of(device int) *plan {
	p.set = p.set[:0]
	for i, m := range p.matches {
		if i%8 == 0 {
			p.set = append(p.set, 0)
		}
		if m.has(device) {
			p.set[i/8] |= 1 << (i % 8)
		}
	}
	if !slices.ContainsFunc(p.set, func(b byte) bool { return b != 0 }) {
		return nil
	}
	if made, known := p.made[string(p.set)]; known {
		return made
	}
	if p.made == nil {
		p.made = map[string]*plan{}
	}
	made := p.make(device)
	p.made[string(p.set)] = made
	return made
}

// make decides every contest. The entries are in the order of precedence of their
// winners.
func (p *plans) make(device int) *plan {
	made := &plan{}
	at := map[Name]int{}
	for _, m := range p.matches {
		if !m.has(device) {
			continue
		}
		for i := range m.Patch.changes {
			c := &m.Patch.changes[i]
			if won, known := at[c.key]; known {
				made.entries[won].suppressed = append(made.entries[won].suppressed, m.Patch)
				continue
			}
			at[c.key] = len(made.entries)
			made.entries = append(made.entries, entry{change: c, winner: m.Patch})
		}
	}
	return made
}

// A writer applies a plan to one device after the other.
type writer struct {
	driver resourceapi.QualifiedName
	// crowded is true if the slice has more devices than a slice with list attributes may
	// have.
	crowded bool
	// storable is true if values that API servers do not store are left out.
	storable bool

	device  resourceapi.Device
	changed bool
	// ownAttributes and ownCapacity are true if the map of device is a copy already.
	ownAttributes, ownCapacity bool
	effects                    []byte
}

// apply makes w.device, and w.effects with an Effect for each entry. First comes what
// needs no room, then as much as there is room for, in the order of precedence.
func (w *writer) apply(p *plan, published *resourceapi.Device) {
	w.device, w.changed, w.ownAttributes, w.ownCapacity = *published, false, false, false
	w.effects = append(w.effects[:0], make([]byte, len(p.entries))...)
	postponed := false
	for i := range p.entries {
		effect, done := w.replace(&p.entries[i])
		w.effects[i] = byte(effect)
		if !done {
			w.effects[i], postponed = byte(pending), true
		}
	}
	if !postponed {
		return
	}
	room := w.room()
	for i := range p.entries {
		if Effect(w.effects[i]) == pending {
			w.effects[i] = byte(w.grow(&p.entries[i], &room))
		}
	}
}

// room is how many names and values a device can still take.
type room struct{ names, values int }

func (w *writer) room() room {
	r := room{
		names:  resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - len(w.device.Attributes) - len(w.device.Capacity),
		values: resourceapi.ResourceSliceMaxAttributeValuesPerDevice,
	}
	for _, a := range w.device.Attributes {
		r.values -= values(&a)
	}
	return r
}

// attributes returns the map of attributes to write to.
func (w *writer) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	if !w.ownAttributes {
		w.device.Attributes = clone(w.device.Attributes)
		w.ownAttributes, w.changed = true, true
	}
	return w.device.Attributes
}

// capacity returns the map of capacities to write to.
func (w *writer) capacity() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	if !w.ownCapacity {
		w.device.Capacity = clone(w.device.Capacity)
		w.ownCapacity, w.changed = true, true
	}
	return w.device.Capacity
}

func clone[V any](of map[resourceapi.QualifiedName]V) map[resourceapi.QualifiedName]V {
	if of == nil {
		return map[resourceapi.QualifiedName]V{}
	}
	return maps.Clone(of)
}

// An Effect is the outcome for one attribute or capacity of a device.
type Effect byte

const (
	// Unchanged: the device had the value already, or not the attribute to remove.
	Unchanged Effect = iota
	// Added: the device did not have it.
	Added
	// Replaced: the device had another value.
	Replaced
	// Removed: the device had it.
	Removed
	// Skipped: there was no room for it, or it is left out: see [Result.Storable].
	Skipped

	pending
	effectMask Effect = 7

	// Further facts are in the bits above.
	typeChanged    Effect = 1 << 3
	policyViolated Effect = 1 << 4
	policyDropped  Effect = 1 << 5
	shortSpelling  Effect = 1 << 6
	leftOut        Effect = 1 << 7
)

// String returns the name of the effect.
func (e Effect) String() string {
	names := [...]string{"Unchanged", "Added", "Replaced", "Removed", "Skipped"}
	if int(e&effectMask) < len(names) {
		return names[e&effectMask]
	}
	return "Unknown"
}

// A place is where a map has an attribute or capacity. A driver may leave its own name
// out of the name, which means the same as the full name.
type place struct {
	name resourceapi.QualifiedName
	// other is a second spelling of the same name, which is removed.
	other resourceapi.QualifiedName
	known bool
	short Effect
}

func placeOf[V any](of map[resourceapi.QualifiedName]V, c *change, driver resourceapi.QualifiedName) place {
	p := place{name: resourceapi.QualifiedName(c.key.Qualified)}
	_, p.known = of[p.name]
	if c.domain != driver {
		return p
	}
	if _, short := of[c.id]; short {
		if p.known {
			p.other = p.name
		}
		p.name, p.known, p.short = c.id, true, shortSpelling
	}
	return p
}

// replace does what needs no room. It is not done if the entry does.
func (w *writer) replace(e *entry) (effect Effect, done bool) {
	if e.key.Capacity {
		at := placeOf(w.device.Capacity, e.change, w.driver)
		if !at.known {
			return 0, false
		}
		return w.replaceCapacity(e, at), true
	}
	at := placeOf(w.device.Attributes, e.change, w.driver)
	switch {
	case e.attribute == nil && !at.known:
		return Unchanged, true
	case e.attribute == nil:
		delete(w.attributes(), at.name)
		delete(w.device.Attributes, at.other)
		return Removed | at.short, true
	case !at.known:
		return 0, false
	}
	before := w.device.Attributes[at.name]
	if values(e.attribute) > values(&before) || w.crowded && isList(e.attribute) && !isList(&before) {
		return 0, false
	}
	return w.replaceAttribute(e, at, &before), true
}

func (w *writer) replaceAttribute(e *entry, at place, before *resourceapi.DeviceAttribute) Effect {
	switch {
	case at.other == "" && equal(before, e.attribute):
		return Unchanged | at.short
	case w.storable && isList(e.attribute):
		return Skipped | leftOut | at.short
	}
	if at.other != "" {
		delete(w.attributes(), at.other)
	}
	w.attributes()[at.name] = *e.attribute
	if kind(before) != kind(e.attribute) {
		return Replaced | typeChanged | at.short
	}
	return Replaced | at.short
}

func (w *writer) replaceCapacity(e *entry, at place) Effect {
	before := w.device.Capacity[at.name]
	after := resourceapi.DeviceCapacity{Value: e.capacity.Value, RequestPolicy: before.RequestPolicy}
	notes := w.policy(e, &after)
	switch {
	case at.other == "" && before.Value.Cmp(after.Value) == 0 && (before.RequestPolicy == after.RequestPolicy || reflect.DeepEqual(before.RequestPolicy, after.RequestPolicy)):
		return Unchanged | notes | at.short
	case w.storable && notes&policyViolated != 0:
		return Skipped | leftOut | notes | at.short
	}
	if at.other != "" {
		delete(w.capacity(), at.other)
	}
	w.capacity()[at.name] = after
	return Replaced | notes | at.short
}

// policy puts the request policy of the patch, if it has one, into a capacity. A policy
// belongs to devices that are shared.
func (w *writer) policy(e *entry, after *resourceapi.DeviceCapacity) (notes Effect) {
	if own := e.capacity.RequestPolicy; own != nil {
		if shared := w.device.AllowMultipleAllocations; shared != nil && *shared {
			after.RequestPolicy = own
		} else {
			notes = policyDropped
		}
	}
	if violates(after) {
		notes |= policyViolated
	}
	return notes
}

// violates reports whether a capacity is below the minimum of its request policy.
func violates(c *resourceapi.DeviceCapacity) bool {
	policy := c.RequestPolicy
	if policy == nil {
		return false
	}
	if policy.Default != nil && policy.Default.Cmp(c.Value) > 0 {
		return true
	}
	for i := range policy.ValidValues {
		if policy.ValidValues[i].Cmp(c.Value) > 0 {
			return true
		}
	}
	span := policy.ValidRange
	return span != nil && (span.Min != nil && span.Min.Cmp(c.Value) > 0 || span.Max != nil && span.Max.Cmp(c.Value) > 0)
}

// grow does what needs room, if there is enough.
func (w *writer) grow(e *entry, left *room) Effect {
	if e.key.Capacity {
		if left.names <= 0 {
			return Skipped
		}
		after := resourceapi.DeviceCapacity{Value: e.capacity.Value}
		notes := w.policy(e, &after)
		if w.storable && notes&policyViolated != 0 {
			return Skipped | leftOut | notes
		}
		left.names--
		w.capacity()[resourceapi.QualifiedName(e.key.Qualified)] = after
		return Added | notes
	}
	at := placeOf(w.device.Attributes, e.change, w.driver)
	before := w.device.Attributes[at.name]
	needed := room{values: values(e.attribute)}
	if at.known {
		needed.values -= values(&before)
	} else {
		needed.names = 1
	}
	if other, twice := w.device.Attributes[at.other]; twice && at.other != "" {
		needed.values -= values(&other)
		needed.names--
	}
	if needed.names > left.names || needed.values > left.values || w.crowded && isList(e.attribute) {
		return Skipped | at.short
	}
	if w.storable && isList(e.attribute) {
		return Skipped | leftOut | at.short
	}
	left.names -= needed.names
	left.values -= needed.values
	if at.known {
		return w.replaceAttribute(e, at, &before)
	}
	w.attributes()[at.name] = *e.attribute
	return Added
}

// equal compares attributes, of which this is done for all keys of all devices.
func equal(a, b *resourceapi.DeviceAttribute) bool {
	return same(a.IntValue, b.IntValue) && same(a.BoolValue, b.BoolValue) &&
		same(a.StringValue, b.StringValue) && same(a.VersionValue, b.VersionValue) &&
		slices.Equal(a.IntValues, b.IntValues) && slices.Equal(a.BoolValues, b.BoolValues) &&
		slices.Equal(a.StringValues, b.StringValues) && slices.Equal(a.VersionValues, b.VersionValues)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// kind numbers the types of attributes.
func kind(a *resourceapi.DeviceAttribute) int {
	for i, is := range [...]bool{
		a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if is {
			return i
		}
	}
	return -1
}

// A change is what a patch does to one attribute or capacity.
type change struct {
	// key is the name as in the patch, domain and id are its parts.
	key        Name
	domain, id resourceapi.QualifiedName
	// attribute is nil if the attribute is removed.
	attribute *resourceapi.DeviceAttribute
	capacity  *resourceapi.DeviceCapacity
}

// A Name is that of an attribute or a capacity. The two are different things even if
// they are written alike.
type Name struct {
	Capacity  bool
	Qualified resourceapi.FullyQualifiedName
}

// String writes the name with its list: capacity[gpu.example.com/memory].
func (n Name) String() string {
	if n.Capacity {
		return fmt.Sprintf("capacity[%s]", n.Qualified)
	}
	return fmt.Sprintf("attributes[%s]", n.Qualified)
}

// addChanges takes the values from the patch that are valid in a slice. An invalid value
// would make every expression fail that reads the device, or the allocator.
func (p *Patch) addChanges() {
	devices := &p.Object.Spec.Devices
	for _, name := range slices.Sorted(maps.Keys(devices.Attributes)) {
		value := devices.Attributes[name]
		c := change{key: Name{Qualified: name}}
		if value.NullValue == nil {
			c.attribute = &value.DeviceAttribute
		}
		p.addChange(c, attributeFault(value))
	}
	for _, name := range slices.Sorted(maps.Keys(devices.Capacity)) {
		value := devices.Capacity[name]
		p.addChange(change{key: Name{Capacity: true, Qualified: name}, capacity: &value}, capacityFault(&value))
	}
}

func (p *Patch) addChange(c change, fault string) {
	domain, id, qualified := strings.Cut(string(c.key.Qualified), "/")
	if !qualified || len(domain) > resourceapi.DeviceMaxDomainLength || len(content.IsDNS1123Subdomain(domain)) > 0 ||
		len(id) > resourceapi.DeviceMaxIDLength || len(content.IsCIdentifier(id)) > 0 {
		fault = "the name must be fully qualified: a DNS subdomain, a slash and a C identifier, such as gpu.example.com/model"
	}
	if fault != "" {
		p.Problems = append(p.Problems, Problem{InvalidValue, c.key.Qualified, "spec.devices." + c.key.String() + ": " + fault})
		return
	}
	c.domain, c.id = resourceapi.QualifiedName(domain), resourceapi.QualifiedName(id)
	p.changes = append(p.changes, c)
}

// attributeFault returns why the value is invalid in a slice, "" if it is valid.
func attributeFault(a v1alpha1.NullableDeviceAttribute) string {
	set := countTrue(a.NullValue != nil, a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil)
	switch {
	case set != 1:
		return fmt.Sprintf(`has %d known values, must have one: int, bool, string, version, a list of these, or "null": {} to remove the attribute`, set)
	case a.NullValue != nil:
		return ""
	case values(&a.DeviceAttribute) == 0:
		return "the list must have at least one value"
	}
	return textFault(&a.DeviceAttribute)
}

// capacityFault returns why the allocator of kube-scheduler cannot calculate with a capacity, ""
// if it can: it divides by the step of a range, and an amount below zero ends every attempt.
func capacityFault(c *resourceapi.DeviceCapacity) string {
	amounts := []*resource.Quantity{&c.Value}
	if policy := c.RequestPolicy; policy != nil {
		amounts = append(amounts, policy.Default)
		for i := range policy.ValidValues {
			amounts = append(amounts, &policy.ValidValues[i])
		}
		if span := policy.ValidRange; span != nil {
			amounts = append(amounts, span.Min, span.Max)
			switch {
			case span.Min == nil:
				return "requestPolicy.validRange.min must be set"
			case span.Step != nil && (span.Step.Sign() <= 0 || span.Step.CmpInt64(math.MaxInt64) > 0):
				return fmt.Sprintf("requestPolicy.validRange.step must be greater than zero and at most %d", math.MaxInt64)
			}
		}
	}
	if slices.ContainsFunc(amounts, func(q *resource.Quantity) bool { return q != nil && q.Sign() < 0 }) {
		return "must have no negative amount"
	}
	return ""
}

func textFault(a *resourceapi.DeviceAttribute) string {
	texts, versions := a.StringValues, a.VersionValues
	if a.StringValue != nil {
		texts = []string{*a.StringValue}
	}
	if a.VersionValue != nil {
		versions = []string{*a.VersionValue}
	}
	for _, text := range texts {
		if len(text) > resourceapi.DeviceAttributeMaxValueLength {
			return fmt.Sprintf("must have at most %[2]d bytes, has %[1]d", len(text), resourceapi.DeviceAttributeMaxValueLength)
		}
	}
	for _, version := range versions {
		if _, err := semver.Parse(version); err != nil || len(version) > resourceapi.DeviceAttributeMaxValueLength {
			return fmt.Sprintf("%q is no version: write it as semver.org 2.0.0 says, such as 12.4.0, in at most %d bytes", version, resourceapi.DeviceAttributeMaxValueLength)
		}
	}
	return ""
}

func countTrue(conditions ...bool) (n int) {
	for _, is := range conditions {
		if is {
			n++
		}
	}
	return n
}

// values counts the values of an attribute, the items of lists singly.
func values(a *resourceapi.DeviceAttribute) int {
	if n := len(a.IntValues) + len(a.BoolValues) + len(a.StringValues) + len(a.VersionValues); n > 0 || isList(a) {
		return n
	}
	return 1
}

func isList(a *resourceapi.DeviceAttribute) bool {
	return a != nil && (a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil)
}
