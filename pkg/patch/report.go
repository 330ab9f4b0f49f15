package patch

import (
	"cmp"
	"maps"
	"slices"
)

// A Report says what a patch does to devices, of one slice or of many. Its size does
// not depend on their number.
type Report struct {
	// Slices is the number of slices with a device that matches, Devices that of these
	// devices.
	Slices, Devices int
	// Patched is the number of devices in which the patch decides at least one
	// attribute or capacity, even where the driver says the same.
	Patched int
	// Failures are about devices that an expression failed for.
	Failures Failures

	keys map[Name]*KeyReport
}

// A KeyReport says what became of one attribute or capacity of a patch.
type KeyReport struct {
	Name Name
	// Added, Replaced and Removed count devices by what became of it, Skipped those
	// without room for it.
	Added, Replaced, Removed, Skipped int
	// TypeChanged, PolicyViolated and PolicyDropped count devices, see Key.
	TypeChanged, PolicyViolated, PolicyDropped int
	// Suppressed is the number of devices in which another patch wins, Tied that of
	// those in which it wins although the priorities are equal.
	Suppressed, Tied int
	// By is the name of a patch that wins, the first one by name of those that win.
	By string
}

// Conflicting tells whether something did not come out as the patch says, and no
// priority says so.
func (r *Report) Conflicting() bool {
	for _, k := range r.keys {
		if k.Skipped > 0 || k.Tied > 0 {
			return true
		}
	}
	return false
}

// Keys returns what became of the attributes and capacities, attributes first, in the
// order of their names.
func (r *Report) Keys() []KeyReport {
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

// Add adds what another report says of other slices.
func (r *Report) Add(other *Report) {
	r.Slices += other.Slices
	r.Devices += other.Devices
	r.Patched += other.Patched
	if r.Failures.Devices == 0 || other.Failures.Devices > 0 && other.Failures.First < r.Failures.First {
		r.Failures.First = other.Failures.First
	}
	r.Failures.Devices += other.Failures.Devices
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

func (r *Report) key(name Name) *KeyReport {
	if r.keys == nil {
		r.keys = map[Name]*KeyReport{}
	}
	if r.keys[name] == nil {
		r.keys[name] = &KeyReport{Name: name}
	}
	return r.keys[name]
}

// Reports says what each of the patches does to the slice that matches a device of it
// or failed to.
func (r Result) Reports() map[*Patch]*Report {
	reports := make(map[*Patch]*Report, len(r.matches))
	for _, m := range r.matches {
		report := &Report{Devices: m.Devices, Failures: m.Failures}
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

func (o outcome) report(reports map[*Patch]*Report, devices int) {
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
