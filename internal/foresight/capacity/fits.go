package capacity

import (
	"slices"
	"sort"
)

// A Fit is how many claims for a number of devices fit now, each claim on one node. The claims
// ask for any devices of the scope, each of them once, and for shares of default size of shared
// ones.
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
	rooms := s.rooms(c)
	for _, size := range Sizes() {
		f := Fit{Devices: size, Unknown: unknown}
		if !unknown {
			f.Claims = rooms.claims(size)
			f.Exact = rooms.exact && (size == 1 || rooms.simple()) || f.Claims == 0 && !c.failed
			if f.Unlimited = f.Claims >= maxRoom; f.Unlimited {
				f.Claims = 0
			}
		}
		all = append(all, f)
	}
	return all
}

// A nodeRoom is how often the devices of one node can be allocated.
type nodeRoom struct {
	// single is the number of devices that can be allocated once, several are the numbers of
	// the shared ones.
	single  int
	several []int
}

// rooms are the devices that can be allocated.
type rooms struct {
	local map[string]*nodeRoom
	// anywhere is how often devices of several nodes can be allocated.
	anywhere int
	// exact is false if the choice among devices decides how many can be allocated.
	exact bool
}

func (r *rooms) add(node string, devices, room int) {
	if node == "" {
		r.anywhere = min(r.anywhere+devices*min(room, maxRoom), maxRoom)
		return
	}
	if r.local[node] == nil {
		r.local[node] = &nodeRoom{}
	}
	if room == 1 {
		r.local[node].single += devices
		return
	}
	for range devices {
		r.local[node].several = append(r.local[node].several, room)
	}
}

// simple reports whether each device is on one node and can be allocated once.
func (r *rooms) simple() bool {
	for _, node := range r.local {
		if len(node.several) > 0 {
			return false
		}
	}
	return r.anywhere == 0
}

// claims is how many claims of a size fit. Devices of several nodes complete first the claims
// that lack least.
func (r *rooms) claims(size int) (n int) {
	lack := make([]int, size) // nodes by what their last claim lacks
	anywhere := r.anywhere
	for _, node := range r.local {
		n += node.claims(size, anywhere > 0)
		if rest := node.sum() % size; rest > 0 {
			lack[size-rest]++
		}
	}
	for missing := 1; missing < size; missing++ {
		complete := min(lack[missing], anywhere/missing)
		n, anywhere = n+complete, anywhere-complete*missing
	}
	return min(n+anywhere/size, maxRoom)
}

func (n *nodeRoom) sum() int {
	sum := n.single
	for _, room := range n.several {
		sum += room
	}
	return sum
}

// claims is how many claims of a size fit the node alone. A claim has each device once, unless
// others is true: then devices of other nodes can take the place of the second time.
func (n *nodeRoom) claims(size int, others bool) int {
	most := n.sum() / size
	if others {
		return most
	}
	return sort.Search(most, func(m int) bool { return n.allocated(m+1) < size*(m+1) })
}

// allocated is how often the devices can be allocated to a number of claims.
func (n *nodeRoom) allocated(claims int) int {
	sum := min(n.single, n.single*claims)
	for _, room := range n.several {
		sum += min(room, claims)
	}
	return sum
}

// rooms finds the devices that can be allocated.
func (s *survey) rooms(c *choice) *rooms {
	r := &rooms{local: map[string]*nodeRoom{}, exact: !c.failed}
	packs := map[*pool][]*device{}
	for _, d := range c.devices {
		switch state := c.stateOf(d); {
		case len(d.seen.ConsumesCounters) > 0 && !d.inUse && (state == Allocatable || state == Excluded):
			packs[d.pool] = append(packs[d.pool], d)
		case state == Allocatable:
			r.add(d.place.node, 1, d.allocations())
		}
	}
	for p, devices := range packs {
		s.packedRooms(c, p, devices, r)
	}
	return r
}

// allocations is how often a device can be allocated.
func (d *device) allocations() int {
	if d.unlimited {
		return maxRoom
	}
	return d.room
}

// packedRooms adds devices that share counters: the largest set of each group. It is exact if
// the devices of each group are alike, or fit all together.
func (s *survey) packedRooms(c *choice, p *pool, devices []*device, r *rooms) {
	if p.short {
		return
	}
	r.exact = r.exact && !c.bound[p]
	mine := map[*device]bool{}
	for _, d := range devices {
		mine[d] = true
	}
	for _, group := range p.groups {
		its := slices.DeleteFunc(slices.Clone(group), func(d *device) bool { return !mine[d] })
		if len(its) == 0 {
			continue
		}
		node, most, shared := its[0].place.node, 1, false
		for _, d := range its {
			if d.place.node != node {
				node = "" // of several nodes, none has more than all
			}
			most, shared = max(most, d.allocations()), shared || d.shared
		}
		answer, _ := s.largest(p, its)
		r.add(node, answer.size, most)
		fixed := answer.exact && (len(answer.of) == 1 || answer.size == len(its))
		r.exact = r.exact && fixed && !shared && !hasCompatibilityGroups(its)
	}
}

// hasCompatibilityGroups reports whether devices have compatibility groups, which are not looked at.
func hasCompatibilityGroups(group []*device) bool {
	return slices.ContainsFunc(group, func(d *device) bool {
		for _, consumed := range d.seen.ConsumesCounters {
			if len(consumed.CompatibilityGroups) > 0 {
				return true
			}
		}
		return false
	})
}
