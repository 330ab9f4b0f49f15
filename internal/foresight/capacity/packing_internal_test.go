package capacity

import (
	"math/rand/v2"
	"testing"
)

// TestLargestSet compares the search with all sets.
func TestLargestSet(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := packing{}
		for range 1 + r.IntN(3) {
			p.left = append(p.left, int64(r.IntN(12)))
		}
		for range 1 + r.IntN(5) {
			k := kind{most: 1 + r.IntN(3)}
			for range p.left {
				k.needs = append(k.needs, int64(r.IntN(5)))
			}
			p.kinds = append(p.kinds, k)
		}
		got, _ := p.solve(searchWork)
		if want := p.naive(0); got.size != want || !got.exact {
			t.Errorf("seed %d: %+v: %+v, want %d", seed, p, got, want)
		}
		sum := 0
		for i, n := range got.of {
			sum += n
			for c, need := range p.kinds[i].needs {
				p.left[c] -= need * int64(n)
			}
		}
		for _, left := range p.left {
			if left < 0 || sum != got.size {
				t.Errorf("seed %d: the set does not fit, or has %d devices: %+v", seed, sum, got)
			}
		}
		if bounded, _ := p.solve(1); bounded.exact && bounded.size > got.size {
			t.Errorf("seed %d: called exact without a proof", seed)
		}
	}
}

// naive tries all sets.
func (p packing) naive(at int) (best int) {
	if at == len(p.kinds) {
		return 0
	}
	q := packing{left: append([]int64(nil), p.left...), kinds: p.kinds}
	for n := 0; n <= p.kinds[at].most; n++ {
		for c, need := range p.kinds[at].needs {
			if q.left[c] = p.left[c] - need*int64(n); q.left[c] < 0 && need > 0 {
				return best
			}
		}
		best = max(best, n+q.naive(at+1))
	}
	return best
}

// TestSearchEnds: what a driver can publish does not make the search long.
func TestSearchEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := packing{}
	for range 32 {
		p.left = append(p.left, 1000)
	}
	for range 64 {
		k := kind{most: 2}
		for range p.left {
			k.needs = append(k.needs, int64(100+r.IntN(200)))
		}
		p.kinds = append(p.kinds, k)
	}
	got, left := p.solve(searchWork)
	if left > 0 || got.exact {
		t.Errorf("the search is short: %d comparisons are left, exact is %t", left, got.exact)
	}
	sum := 0
	for _, n := range got.of {
		sum += n
	}
	if sum > got.size {
		t.Errorf("the bound %d is less than a set that fits, %d", got.size, sum)
	}
}

// TestClaims: a claim has each device once, and what several nodes share completes claims.
func TestClaims(t *testing.T) {
	for _, tt := range []struct {
		local    []nodeRoom
		anywhere int
		want     [4]int
	}{
		{[]nodeRoom{{single: 3}, {single: 5}}, 0, [4]int{8, 3, 1, 0}},
		{[]nodeRoom{{single: 3}, {single: 5}}, 1, [4]int{9, 4, 2, 0}},
		{[]nodeRoom{{single: 3}, {single: 5}}, 4, [4]int{12, 6, 3, 1}},
		{nil, 9, [4]int{9, 4, 2, 1}},
		{[]nodeRoom{{several: []int{4}}}, 0, [4]int{4, 0, 0, 0}},
		{[]nodeRoom{{single: 1, several: []int{4, 2}}}, 0, [4]int{7, 3, 0, 0}},
		{[]nodeRoom{{single: 2, several: []int{maxRoom}}}, 0, [4]int{maxRoom, 2, 0, 0}},
	} {
		r := rooms{local: map[string]*nodeRoom{}, anywhere: tt.anywhere}
		for i := range tt.local {
			r.local[string(rune('a'+i))] = &tt.local[i]
		}
		for i, size := range Sizes() {
			if got := r.claims(size); got != tt.want[i] {
				t.Errorf("%+v and %d: %d claims for %d devices, want %d", tt.local, tt.anywhere, got, size, tt.want[i])
			}
		}
	}
}
