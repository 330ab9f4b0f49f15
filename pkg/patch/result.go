package patch

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// A Result is a merged slice, with where it comes from.
type Result struct {
	// Slice is what consumers see. It is Published itself if nothing is different, and
	// shares with it what is equal otherwise.
	Slice *resourceapi.ResourceSlice
	// Published is what the driver has published.
	Published *resourceapi.ResourceSlice

	// matches are in the order of precedence.
	matches []Match
	// devices is nil if no patch applies to a device.
	devices []outcome
}

// An outcome is the result for one device: an effect for each entry of a plan.
type outcome struct {
	plan    *plan
	effects string
}

// A Key is what patches did to one attribute or capacity of a device.
type Key struct {
	// Name is that in the patches, Spelling that in the device: a driver may leave out
	// its own name.
	Name     Name
	Spelling resourceapi.QualifiedName
	Effect   Effect
	// Winner is the patch that decides, Suppressed are the other patches that set the same
	// key, in the order of precedence.
	Winner     *Patch
	Suppressed []*Patch
	// TypeChanged is true if the driver's value has another type, so that expressions about
	// it may fail.
	TypeChanged bool
	// PolicyViolated is true if the value of a capacity is below the minimum of its request
	// policy. PolicyDropped is true if the patch has a policy and the device is not shared,
	// so that it cannot have one.
	PolicyViolated, PolicyDropped bool
	// LeftOut is true if API servers do not store the value: see [Result.Storable].
	LeftOut bool
}

// Device yields what patches did to the device with an index, in the order of
// precedence of the winners.
func (r Result) Device(index int) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		if index >= len(r.devices) || r.devices[index].plan == nil {
			return
		}
		o := r.devices[index]
		for i := range o.plan.entries {
			if !yield(o.key(i)) {
				return
			}
		}
	}
}

func (o outcome) key(i int) Key {
	e, effect := &o.plan.entries[i], Effect(o.effects[i])
	k := Key{
		Name: e.key, Spelling: resourceapi.QualifiedName(e.key.Qualified), Effect: effect & effectMask,
		Winner: e.winner, Suppressed: e.suppressed,
		TypeChanged:    effect&typeChanged != 0,
		PolicyViolated: effect&policyViolated != 0,
		PolicyDropped:  effect&policyDropped != 0,
		LeftOut:        effect&leftOut != 0,
	}
	if effect&shortSpelling != 0 {
		k.Spelling = e.id
	}
	return k
}

// Storable is the result that API servers store as it is: the patches are merged again, without the values that
// they drop or refuse: lists, which need a feature gate that is off by default, and capacities below their request policy.
func (r Result) Storable() Result {
	if slices.ContainsFunc(r.devices, outcome.leavesOut) {
		return write(r.Published, r.matches, true)
	}
	return r
}

// leavesOut reports whether [Result.Storable] leaves out a value that has been written.
func (o outcome) leavesOut() bool {
	for i := range len(o.effects) {
		effect := Effect(o.effects[i])
		written := effect&effectMask == Added || effect&effectMask == Replaced
		if written && (effect&policyViolated != 0 || isList(o.plan.entries[i].attribute)) {
			return true
		}
	}
	return false
}

// Matches returns the patches that match devices of the slice or failed to, in the
// order of precedence.
func (r Result) Matches() []Match { return r.matches }

// A Summary is the effect of a patch on the devices of one or more slices. Its size does not
// depend on their number.
type Summary struct {
	// Slices is the number of slices with a device that matches, Devices that of these
	// devices.
	Slices, Devices int
	// Patched is the number of devices in which the patch decides at least one attribute or
	// capacity, even where the driver publishes the same value.
	Patched int
	// Failures are about devices that an expression failed for.
	Failures Failures

	keys map[Name]*KeyReport
}

// A KeyReport is the outcome for one attribute or capacity of a patch.
type KeyReport struct {
	Name Name
	// Added, Replaced and Removed count devices by outcome, Skipped those without room for
	// it.
	Added, Replaced, Removed, Skipped int
	// TypeChanged, PolicyViolated and PolicyDropped count devices, see Key.
	TypeChanged, PolicyViolated, PolicyDropped int
	// Suppressed is the number of devices in which another patch wins, Tied that of
	// those in which it wins although the priorities are equal.
	Suppressed, Tied int
	// By is the name of a patch that wins, the first one by name of those that win.
	By string
}

// Keys returns the outcome for each attribute and capacity, attributes first, in the order
// of their names.
func (r *Summary) Keys() []KeyReport {
	all := make([]KeyReport, 0, len(r.keys))
	for _, k := range r.keys {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b KeyReport) int {
		if a.Name.Capacity != b.Name.Capacity {
			if b.Name.Capacity {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name.Qualified, b.Name.Qualified)
	})
	return all
}

// Add adds a report about other slices.
func (r *Summary) Add(other *Summary) {
	r.Slices += other.Slices
	r.Devices += other.Devices
	r.Patched += other.Patched
	if r.Failures.Devices == 0 || other.Failures.Devices > 0 && other.Failures.First < r.Failures.First {
		r.Failures.First = other.Failures.First
	}
	r.Failures.Devices += other.Failures.Devices
	r.Failures.Expensive = r.Failures.Expensive || other.Failures.Expensive
	for name, k := range other.keys {
		r.key(name).add(k)
	}
}

func (k *KeyReport) add(other *KeyReport) {
	k.Added += other.Added
	k.Replaced += other.Replaced
	k.Removed += other.Removed
	k.Skipped += other.Skipped
	k.TypeChanged += other.TypeChanged
	k.PolicyViolated += other.PolicyViolated
	k.PolicyDropped += other.PolicyDropped
	k.suppressed(other.By, other.Suppressed, other.Tied)
}

func (k *KeyReport) suppressed(by string, suppressed, tied int) {
	k.Suppressed += suppressed
	k.Tied += tied
	if by != "" && (k.By == "" || by < k.By) {
		k.By = by
	}
}

func (r *Summary) key(name Name) *KeyReport {
	if r.keys == nil {
		r.keys = map[Name]*KeyReport{}
	}
	if r.keys[name] == nil {
		r.keys[name] = &KeyReport{Name: name}
	}
	return r.keys[name]
}

// Reports returns the effect on the slice of each patch that matches a device of it or
// failed to.
func (r Result) Reports() map[*Patch]*Summary {
	reports := make(map[*Patch]*Summary, len(r.matches))
	for _, m := range r.matches {
		report := &Summary{Devices: m.Devices, Failures: m.Failures}
		if m.Devices > 0 {
			report.Slices = 1
		}
		reports[m.Patch] = report
	}
	// Devices with the same outcome are counted together.
	alike := map[outcome]int{}
	for _, o := range r.devices {
		if o.plan != nil {
			alike[o]++
		}
	}
	for o, devices := range alike {
		o.report(reports, devices)
	}
	return reports
}

func (o outcome) report(reports map[*Patch]*Summary, devices int) {
	deciding := map[*Patch]bool{}
	for i := range o.plan.entries {
		key := o.key(i)
		k := reports[key.Winner].key(key.Name)
		counters := [...]struct {
			is bool
			n  *int
		}{
			{key.Effect == Added, &k.Added},
			{key.Effect == Replaced, &k.Replaced},
			{key.Effect == Removed, &k.Removed},
			{key.Effect == Skipped, &k.Skipped},
			{key.TypeChanged, &k.TypeChanged},
			{key.PolicyViolated, &k.PolicyViolated},
			{key.PolicyDropped, &k.PolicyDropped},
		}
		for _, c := range counters {
			if c.is {
				*c.n += devices
			}
		}
		deciding[key.Winner] = deciding[key.Winner] || key.Effect != Skipped
		for _, p := range key.Suppressed {
			tied := 0
			if p.priority() == key.Winner.priority() {
				tied = devices
			}
			reports[p].key(key.Name).suppressed(key.Winner.Object.Name, devices, tied)
		}
	}
	for p := range maps.Keys(deciding) {
		if deciding[p] {
			reports[p].Patched += devices
		}
	}
}
