package capacity

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A counter is one counter of a counter set of a pool.
type counter struct{ set, name string }

// A search for the largest set of devices compares needs with counters. The partitions of a
// GPU take thousands of comparisons; a driver can publish devices that take forever.
const (
	// searchWork bounds the comparisons for one group of devices.
	searchWork = 2_000_000
	// totalWork bounds those of one report.
	totalWork = 100_000_000
)

// A packing is the question how many devices fit the counters at once. Devices with the same
// needs are one kind.
type packing struct {
	left  []int64
	kinds []kind
	// inexact is true if a quantity is too large or too fine to be counted.
	inexact bool
}

// A kind is devices that need the same.
type kind struct {
	needs []int64 // by counter
	most  int     // how many devices there are
}

// A packed is the answer: how many devices of each kind, and in sum. Exact is false if the
// search ended before the number was proven; Size is an upper bound then, and Of has fewer.
type packed struct {
	of    []int
	size  int
	exact bool
}

// key has all that the answer depends on.
func (p packing) key() string {
	text := appendNumbers(strconv.AppendBool(nil, p.inexact), p.left)
	for _, k := range p.kinds {
		text = appendNumbers(strconv.AppendInt(text, int64(k.most), 10), k.needs)
	}
	return string(text)
}

func appendNumbers(text []byte, numbers []int64) []byte {
	for _, n := range numbers {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	return append(text, ';')
}

// solve finds the largest set with at most that many comparisons, and returns how many are
// left. The search takes the kinds that need least first, and stops as soon as it has as many
// as the bound allows.
func (p packing) solve(work int) (packed, int) {
	order := make([]int, len(p.kinds))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.weight(p.kinds[a]), p.weight(p.kinds[b])) })
	s := search{packing: p, order: order, left: slices.Clone(p.left), now: make([]int, len(p.kinds)), best: make([]int, len(p.kinds)), work: work}
	bound := s.bound(0)
	s.limit = bound
	s.visit(0, 0)
	if s.size == bound || s.work > 0 {
		return packed{of: s.best, size: s.size, exact: !p.inexact}, s.work
	}
	return packed{of: s.best, size: bound}, s.work
}

// weight is the largest part of a counter that a device of a kind needs.
func (p packing) weight(k kind) (part float64) {
	for c, need := range k.needs {
		switch {
		case need <= 0:
		case p.left[c] <= 0:
			return math.Inf(1)
		default:
			part = max(part, float64(need)/float64(p.left[c]))
		}
	}
	return part
}

type search struct {
	packing
	order     []int
	left      []int64
	now, best []int
	size      int // of best
	limit     int // no set is larger
	work      int // comparisons that are left
}

// visit tries all numbers of the kinds from a place in the order on, the largest first. have
// devices are chosen.
func (s *search) visit(at, have int) {
	if have > s.size {
		s.size = have
		copy(s.best, s.now)
	}
	s.work -= 1 + len(s.left)*(len(s.order)-at)
	if at == len(s.order) || s.size == s.limit || s.work <= 0 || have+s.bound(at) <= s.size {
		return
	}
	k := s.order[at]
	most := s.fit(k)
	s.take(k, most)
	for n := most; ; n-- {
		s.now[k] = n
		s.visit(at+1, have+n)
		if n == 0 {
			return
		}
		s.take(k, -1)
	}
}

// take consumes the counters for devices of a kind.
func (s *search) take(k, n int) {
	for c, need := range s.kinds[k].needs {
		s.left[c] -= need * int64(n)
	}
}

// fit is how many devices of a kind fit what is left.
func (s *search) fit(k int) int {
	most := int64(s.kinds[k].most)
	for c, need := range s.kinds[k].needs {
		if need > 0 {
			most = min(most, max(0, s.left[c]/need))
		}
	}
	return int(most)
}

// bound is a number of devices of the kinds from a place in the order on that no set exceeds:
// each counter by itself allows at most as many as if only it mattered.
func (s *search) bound(at int) int {
	rest := s.order[at:]
	bound := 0
	for _, k := range rest {
		bound += s.fit(k)
	}
	needing := make([]int, 0, len(rest))
	for c := range s.left {
		n, left := 0, max(0, s.left[c])
		needing = needing[:0]
		for _, k := range rest {
			if s.kinds[k].needs[c] > 0 {
				needing = append(needing, k)
			} else {
				n += s.fit(k)
			}
		}
		slices.SortFunc(needing, func(a, b int) int { return cmp.Compare(s.kinds[a].needs[c], s.kinds[b].needs[c]) })
		for _, k := range needing {
			fit := min(int64(s.fit(k)), left/s.kinds[k].needs[c])
			n, left = n+int(fit), left-fit*s.kinds[k].needs[c]
		}
		bound = min(bound, n)
	}
	return bound
}

// counters are the values of a group of counter sets as whole numbers.
type counters struct {
	index map[counter]int
	// milli has the counters with a fraction.
	milli   map[counter]bool
	inexact bool
}

// amount is a quantity of a counter as a whole number.
func (c *counters) amount(of counter, value resource.Quantity) int64 {
	if c.milli[of] {
		if value.CmpInt64(math.MaxInt64/1000) > 0 {
			c.inexact = true
			return math.MaxInt64 / 1000
		}
		return value.MilliValue()
	}
	whole, ok := value.AsInt64()
	if !ok {
		if value.Sign() > 0 {
			c.inexact = c.inexact || value.CmpInt64(math.MaxInt64) > 0
		}
		return value.Value()
	}
	return whole
}

// fraction reports whether a quantity is no whole number.
func fraction(value resource.Quantity) bool {
	_, whole := value.AsInt64()
	return !whole && value.MilliValue()%1000 != 0
}

// newPacking makes the question for devices of one pool. left is what the counters of the
// pool have; the place of each device's kind is returned, too.
func newPacking(left map[counter]resource.Quantity, devices []*resourceapi.Device) (p packing, kindOf []int) {
	c := counters{index: map[counter]int{}, milli: map[counter]bool{}}
	for _, d := range devices {
		for _, consumed := range d.ConsumesCounters {
			for name, value := range consumed.Counters {
				of := counter{consumed.CounterSet, name}
				c.milli[of] = c.milli[of] || fraction(value.Value) || fraction(left[of])
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(c.milli), func(a, b counter) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.name, b.name))
	})
	p.left = make([]int64, len(names))
	for i, of := range names {
		c.index[of] = i
		p.left[i] = c.amount(of, left[of])
	}
	known := map[string]int{}
	for _, d := range devices {
		needs := make([]int64, len(names))
		for _, consumed := range d.ConsumesCounters {
			for name, value := range consumed.Counters {
				of := counter{consumed.CounterSet, name}
				needs[c.index[of]] += c.amount(of, value.Value)
			}
		}
		text := string(appendNumbers(nil, needs))
		at, ok := known[text]
		if !ok {
			at = len(p.kinds)
			known[text] = at
			p.kinds = append(p.kinds, kind{needs: needs})
		}
		p.kinds[at].most++
		kindOf = append(kindOf, at)
	}
	p.inexact = c.inexact
	return p, kindOf
}
