package capacity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// By is what the rows of a report are.
type By string

const (
	ByDriver    By = "driver"
	ByClass     By = "class"
	ByNode      By = "node"
	ByPool      By = "pool"
	ByModel     By = "model"
	ByNamespace By = "namespace"
)

// Bys are all.
func Bys() []string {
	return []string{string(ByClass), string(ByDriver), string(ByModel), string(ByNamespace), string(ByNode), string(ByPool)}
}

// An Inventory is the capacity of the devices of a scope.
type Inventory struct {
	Class  string `json:"class,omitempty"`
	Driver string `json:"driver,omitempty"`
	By     By     `json:"by"`
	// Partial is true if there are claims that could not be read.
	Partial bool `json:"partialView"`
	// Rows are the devices in groups. Rows by class can overlap; those by namespace have what
	// the claims of the namespace hold.
	Rows  []Row `json:"rows"`
	Total Row   `json:"total"`
	// Holders are the namespaces whose claims have devices.
	Holders []Holder `json:"holders"`
	// Unpublished is how many devices claims hold that no slice has.
	Unpublished int `json:"unpublished,omitempty"`
	// TaintedMinutes is for how many minutes devices had a taint with the effect NoSchedule or NoExecute
	// in the last 24 hours, all together, if a history is known.
	TaintedMinutes *int     `json:"taintedMinutes24h,omitempty"`
	Notes          []string `json:"notes,omitempty"`
	// FeatureGates are those of kube-scheduler with which devices are counted.
	FeatureGates gates.Used `json:"featureGates"`
}

// A Row counts devices. Total is the sum of the states.
type Row struct {
	Name        string `json:"name,omitempty"`
	Total       int    `json:"total"`
	Allocatable int    `json:"allocatable"`
	Held        int    `json:"held"`
	Tainted     int    `json:"tainted"`
	PatchedAway int    `json:"patchedAway"`
	Excluded    int    `json:"excluded"`
	Unreachable int    `json:"unreachable"`
	Unknown     int    `json:"unknown"`
	// UpperBound is true if it is not proven that all allocatable devices can be allocated
	// together.
	UpperBound bool `json:"upperBound,omitempty"`
	// Effects counts the tainted devices by their strongest effect, Reasons the unreachable
	// ones by the reason.
	Effects map[resourceapi.DeviceTaintEffect]int `json:"effects,omitempty"`
	Reasons map[Reason]int                        `json:"reasons,omitempty"`
	// Shares are those of devices that several claims share.
	Shares *Shares `json:"shares,omitempty"`
	// Fits is how many claims for 1, 2, 4 and 8 devices fit now. It is empty for devices of
	// several drivers without a class: no request asks for any of them.
	Fits []Fit `json:"fits,omitempty"`
}

// Shares counts the shares of shared devices.
type Shares struct {
	Held int `json:"held"`
	// Room is how many shares of default size fit now. Unlimited is the number of allocatable
	// devices whose shares consume no capacity.
	Room      int `json:"room"`
	Unlimited int `json:"unlimited,omitempty"`
}

// A Holder is a namespace.
type Holder struct {
	Namespace string `json:"namespace"`
	Claims    int    `json:"claims"`
	// Devices are those that its claims have for themselves, Shares those that they have of
	// shared ones.
	Devices int `json:"devices"`
	Shares  int `json:"shares,omitempty"`
}

// maxEvaluations bounds how many times a class is compared with a device.
const maxEvaluations = 4_000_000

// Inventory counts the devices of a scope, in rows.
func (c Cluster) Report(ctx context.Context, scope Scope, by By) (Inventory, error) {
	r := Inventory{Class: scope.Class, Driver: scope.Driver, By: by, Partial: c.Partial, Rows: []Row{}, Holders: []Holder{}, Notes: slices.Clone(c.Notes),
		FeatureGates: placement.Known(c.Gates).Used()}
	s, err := c.survey(ctx)
	if err != nil {
		return r, err
	}
	chosen, err := s.choose(ctx, scope)
	if err != nil {
		return r, err
	}
	r.Notes = append(r.Notes, chosen.notes...)
	r.Total = s.count(chosen)
	switch by {
	case ByClass:
		if err = s.classRows(ctx, scope, &r); err != nil {
			return r, err
		}
	case ByNamespace: // the holders
	default:
		r.Rows = append(r.Rows, s.rows(chosen, by)...)
	}
	r.Holders, r.Unpublished = s.holders(chosen, scope)
	if r.Partial {
		r.Notes = append(r.Notes, "partial view: free devices are unknown, because not all claims could be read")
	}
	return r, nil
}

// A choice is the devices of a scope.
type choice struct {
	// class is true if a class selects them.
	class   bool
	devices []*device
	// allocatable are those of them that can be allocated, all together; excluded those that
	// their counters exclude. away are patched away.
	excluded, away map[*device]bool
	// bound is true if the number of allocatable devices is an upper bound, by pool.
	bound map[*pool]bool
	// failed is true if an expression fails on a device: the scheduler can stop at it.
	failed bool
	notes  []string
}

// choose finds the devices of a scope.
func (s *survey) choose(ctx context.Context, scope Scope) (*choice, error) {
	c := &choice{class: scope.Class != "", excluded: map[*device]bool{}, away: map[*device]bool{}, bound: map[*pool]bool{}}
	classes := []*resourceapi.DeviceClass{}
	if scope.Class != "" {
		class := s.View.Class(scope.Class)
		if class == nil {
			return nil, fmt.Errorf("DeviceClass %q not found", scope.Class)
		}
		classes = append(classes, class)
	} else {
		for class := range s.View.Classes() {
			classes = append(classes, class)
		}
	}
	failed, failure := 0, error(nil)
	for i, d := range s.devices {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if scope.Driver != "" && d.slice.Spec.Driver != scope.Driver {
			continue
		}
		in, away, err := s.selected(ctx, classes, scope.Class != "", d)
		if err != nil {
			failed, failure = failed+1, cmp.Or(failure, err)
			continue
		}
		if away {
			c.away[d] = true
		}
		if in || away {
			c.devices = append(c.devices, d)
		}
	}
	if failed > 0 {
		c.failed = true
		c.notes = append(c.notes, fmt.Sprintf("%s not counted: %v", plural.Of(failed, "device"), failure))
	}
	s.exclude(c)
	return c, nil
}

// selected reports whether a device is in the class, or in any if none is named, and whether a
// patch has taken it out.
func (s *survey) selected(ctx context.Context, classes []*resourceapi.DeviceClass, named bool, d *device) (in, away bool, err error) {
	patched := false
	for range d.tracker.Patched() {
		patched = true
		break
	}
	if !named && !patched {
		return true, false, nil
	}
	before := false
	for _, class := range classes {
		now, err := s.inClass(ctx, class, d.slice.Spec.Driver, d.seen)
		if err != nil && named {
			return false, false, err
		}
		if in = in || now; in {
			return true, false, nil
		}
		if patched && !before {
			before, err = s.inClass(ctx, class, d.slice.Spec.Driver, d.tracker.Published())
			before = before && err == nil
		}
	}
	return !named, before, nil
}

// exclude finds the devices whose counters do not suffice.
func (s *survey) exclude(c *choice) {
	free := map[*pool]map[*device]bool{}
	for _, d := range c.devices {
		if len(d.seen.ConsumesCounters) == 0 || d.inUse || c.away[d] || d.state != Allocatable && d.state != Unknown {
			continue
		}
		if free[d.pool] == nil {
			free[d.pool] = map[*device]bool{}
		}
		free[d.pool][d] = true
	}
	for p, its := range free {
		for _, group := range p.groups {
			s.pack(c, p, slices.DeleteFunc(slices.Clone(group), func(d *device) bool { return !its[d] }))
		}
	}
}

// pack excludes the devices of a group that are not in its largest set.
func (s *survey) pack(c *choice, p *pool, group []*device) {
	if len(group) == 0 {
		return
	}
	if p.short {
		for _, d := range group {
			c.excluded[d] = true
		}
		return
	}
	answer, kindOf := s.largest(p, group)
	of, size := slices.Clone(answer.of), 0
	for i, d := range group {
		if of[kindOf[i]] > 0 {
			of[kindOf[i]]--
			size++
		} else {
			c.excluded[d] = true
		}
	}
	for i := len(group) - 1; i >= 0 && size < answer.size; i-- { // the bound is not proven
		if c.excluded[group[i]] {
			delete(c.excluded, group[i])
			size++
		}
	}
	if !answer.exact {
		c.bound[p] = true
	}
}

// largest is the largest set of the devices of a group. Groups with the same counters and
// needs, such as those of equal GPUs, are solved once.
func (s *survey) largest(p *pool, group []*device) (packed, []int) {
	seen := make([]*resourceapi.Device, len(group))
	for i, d := range group {
		seen[i] = d.seen
	}
	question, kindOf := newPacking(p.left, seen)
	key := question.key()
	answer, known := s.solved[key]
	if !known {
		work, left := min(searchWork, s.work), 0
		answer, left = question.solve(work)
		s.work -= work - left
		s.solved[key] = answer
	}
	return answer, kindOf
}

// stateOf is the state of a device in a scope.
func (c *choice) stateOf(d *device) State {
	switch {
	case d.state == Held || d.state == Unreachable:
		return d.state
	case c.away[d]:
		return PatchedAway
	case c.excluded[d]:
		return Excluded
	}
	return d.state
}

// rows counts the devices in groups.
func (s *survey) rows(c *choice, by By) (rows []Row) {
	groups := map[string][]*device{}
	for _, d := range c.devices {
		name := d.in(by)
		groups[name] = append(groups[name], d)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		part := *c
		part.devices = groups[name]
		row := s.count(&part)
		row.Name = name
		rows = append(rows, row)
	}
	return rows
}

// Names of the rows of devices that have no name of that kind.
const (
	SeveralNodes = "(several nodes)"
	NoModel      = "(no model)"
)

func (d *device) in(by By) string {
	switch by {
	case ByNode:
		return cmp.Or(d.place.node, SeveralNodes)
	case ByPool:
		return d.slice.Spec.Driver + "/" + d.slice.Spec.Pool.Name
	case ByModel:
		return cmp.Or(d.model, NoModel)
	default:
		return d.slice.Spec.Driver
	}
}

// classRows has a row for each class.
func (s *survey) classRows(ctx context.Context, scope Scope, r *Inventory) error {
	var names []string
	for class := range s.View.Classes() {
		if scope.Class == "" || class.Name == scope.Class {
			names = append(names, class.Name)
		}
	}
	if n := len(names) * len(s.devices); n > maxEvaluations {
		return fmt.Errorf("--by class: %d classes and %d devices are too many to compare, at most %d pairs; name one with --class", len(names), len(s.devices), maxEvaluations)
	}
	for _, name := range names {
		chosen, err := s.choose(ctx, Scope{Class: name, Driver: scope.Driver})
		if err != nil {
			return err
		}
		row := s.count(chosen)
		row.Name = name
		r.Rows, r.Notes = append(r.Rows, row), append(r.Notes, chosen.notes...)
	}
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	return nil
}

// count counts the devices of a choice.
func (s *survey) count(c *choice) (row Row) {
	for _, d := range c.devices {
		row.add(d, c.stateOf(d))
		row.shares(d, c.stateOf(d))
		row.UpperBound = row.UpperBound || c.bound[d.pool]
	}
	if c.class || !slices.ContainsFunc(c.devices, func(d *device) bool { return d.slice.Spec.Driver != c.devices[0].slice.Spec.Driver }) {
		row.Fits = s.fits(c)
	}
	return row
}

// In is how many devices of a row are in a state.
func (r Row) In(state State) int { return *r.of(state) }

// of is the field of a state.
func (r *Row) of(state State) *int {
	switch state {
	case Held:
		return &r.Held
	case Unreachable:
		return &r.Unreachable
	case PatchedAway:
		return &r.PatchedAway
	case Tainted:
		return &r.Tainted
	case Excluded:
		return &r.Excluded
	case Unknown:
		return &r.Unknown
	default:
		return &r.Allocatable
	}
}

func (r *Row) add(d *device, state State) {
	r.Total++
	*r.of(state)++
	switch state {
	case Unreachable:
		if r.Reasons == nil {
			r.Reasons = map[Reason]int{}
		}
		r.Reasons[d.reason]++
	case Tainted:
		if r.Effects == nil {
			r.Effects = map[resourceapi.DeviceTaintEffect]int{}
		}
		r.Effects[d.effect]++
	}
}

func (r *Row) shares(d *device, state State) {
	if !d.shared {
		return
	}
	if r.Shares == nil {
		r.Shares = &Shares{}
	}
	r.Shares.Held += d.holding.Shares
	switch {
	case state != Allocatable:
	case d.unlimited:
		r.Shares.Unlimited++
	default:
		r.Shares.Room += d.room
	}
}

// holders counts what the claims of each namespace have of the devices.
func (s *survey) holders(c *choice, scope Scope) (all []Holder, unpublished int) {
	by := map[string]*Holder{}
	seen := map[*resourceapi.ResourceClaim]bool{}
	for _, d := range c.devices {
		for _, share := range d.holding.by {
			holder := by[share.claim.Namespace]
			if holder == nil {
				holder = &Holder{Namespace: share.claim.Namespace}
				by[share.claim.Namespace] = holder
			}
			if !seen[share.claim] {
				seen[share.claim] = true
				holder.Claims++
			}
			if share.whole {
				holder.Devices++
			} else {
				holder.Shares++
			}
		}
	}
	for id, h := range s.held {
		if !h.published && scope.Class == "" && (scope.Driver == "" || scope.Driver == id.Driver) {
			unpublished++
		}
	}
	all = []Holder{}
	for _, h := range by {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Devices+b.Shares, a.Devices+a.Shares), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all, unpublished
}
