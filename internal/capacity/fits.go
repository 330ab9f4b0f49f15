package capacity

import (
	"maps"
	"slices"
)

// A Fit is how many claims for a number of devices fit now, each claim on one node. The claims
// ask for any devices of the scope, and for shares of default size of shared ones.
type Fit struct {
	Devices int `json:"devices"`
	Claims  int `json:"claims"`
	// Unlimited is true if there is a device whose shares consume no capacity.
	Unlimited bool `json:"unlimited,omitempty"`
	// Unknown is true if devices are unknown: Claims is 0 then.
	Unknown bool `json:"unknown,omitempty"`
	// Exact is true if the scheduler allocates that many, whatever it chooses first. Otherwise
	// it is an upper bound.
	Exact bool `json:"exact"`
}

// Sizes are the sizes of claims.
func Sizes() []int { return []int{1, 2, 4, 8} }

// fits finds how many claims of each size fit.
func (s *survey) fits(c *choice) (all []Fit) {
	unknown := slices.ContainsFunc(c.devices, func(d *device) bool { return c.stateOf(d) == Unknown })
	local, anywhere, unlimited, exact := s.rooms(c)
	for _, size := range Sizes() {
		f := Fit{Devices: size, Unknown: unknown, Unlimited: unlimited && !unknown}
		if !unknown {
			f.Claims = claims(local, anywhere, size)
			f.Exact = exact && (size == 1 || anywhere == 0) || f.Claims == 0 && !unlimited && !c.failed
		}
		all = append(all, f)
	}
	return all
}

// claims is how many claims of a size fit nodes with rooms of their own, and room that all of
// them share. What they share completes first the claims that lack least.
func claims(local []int, anywhere, size int) (n int) {
	lack := make([]int, size) // nodes by what their last claim lacks
	for _, room := range local {
		n += room / size
		if rest := room % size; rest > 0 {
			lack[size-rest]++
		}
	}
	for missing := 1; missing < size; missing++ {
		complete := min(lack[missing], anywhere/missing)
		n, anywhere = n+complete, anywhere-complete*missing
	}
	return n + anywhere/size
}

// rooms are how many allocations fit each node, and how many fit devices of several nodes.
func (s *survey) rooms(c *choice) (local []int, anywhere int, unlimited, exact bool) {
	exact = !c.failed
	byNode := map[string]int{}
	packs := map[*pool][]*device{}
	for _, d := range c.devices {
		switch state := c.stateOf(d); {
		case len(d.seen.ConsumesCounters) > 0 && !d.inUse && (state == Allocatable || state == Excluded):
			packs[d.pool] = append(packs[d.pool], d)
			continue
		case state != Allocatable:
			continue
		}
		unlimited = unlimited || d.unlimited
		if d.place.node == "" {
			anywhere += d.room
		} else {
			byNode[d.place.node] += d.room
		}
	}
	for p, devices := range packs {
		packedExact := s.packedRooms(c, p, devices, func(node string, n int) {
			if node == "" {
				anywhere += n
			} else {
				byNode[node] += n
			}
		})
		exact = exact && packedExact
	}
	return slices.Collect(maps.Values(byNode)), anywhere, unlimited, exact
}

// packedRooms adds the rooms of devices that share counters: the largest set of each group. It
// is exact if the devices of each group are alike, or fit all together.
func (s *survey) packedRooms(c *choice, p *pool, devices []*device, add func(node string, n int)) (exact bool) {
	exact = !p.short
	if p.short {
		return true
	}
	mine := map[*device]bool{}
	for _, d := range devices {
		mine[d] = true
	}
	for _, group := range p.groups {
		its := slices.DeleteFunc(slices.Clone(group), func(d *device) bool { return !mine[d] })
		if len(its) == 0 {
			continue
		}
		node := its[0].place.node
		for _, d := range its {
			if d.place.node != node {
				node = "" // of several nodes, none has more than all
			}
		}
		n, fixed := s.roomOf(p, its)
		add(node, n)
		exact = exact && fixed
	}
	return exact && !c.bound[p]
}

// roomOf is how many allocations devices of one group fit at once; exact is true if the choice
// among them cannot change it.
func (s *survey) roomOf(p *pool, group []*device) (n int, exact bool) {
	answer, _ := s.largest(p, group)
	most, shared := 1, false
	for _, d := range group {
		most, shared = max(most, d.room), shared || d.shared
	}
	exact = answer.exact && (len(answer.of) == 1 || answer.size == len(group))
	return answer.size * most, exact && !shared && !compatible(group)
}

// compatible reports whether devices have compatibility groups, which are not looked at.
func compatible(group []*device) bool {
	return slices.ContainsFunc(group, func(d *device) bool {
		for _, consumed := range d.seen.ConsumesCounters {
			if len(consumed.CompatibilityGroups) > 0 {
				return true
			}
		}
		return false
	})
}
