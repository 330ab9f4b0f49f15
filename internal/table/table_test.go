package table

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// A ticket has few keys, so that many tickets share one.
type ticket struct{ key, number int }

func (t ticket) Key() int { return t.key }

func sorted(tickets []ticket) []ticket {
	slices.SortFunc(tickets, func(a, b ticket) int { return 1000*(a.key-b.key) + a.number - b.number })
	return tickets
}

// check compares a table with the same as a map.
func check(t *testing.T, table *Table[int, ticket], want map[ticket]int) {
	t.Helper()
	var all []ticket
	keys := map[int]bool{}
	for e, n := range want {
		keys[e.key] = true
		all = append(all, slices.Repeat([]ticket{e}, n)...)
	}
	if got := slices.Collect(table.All()); table.Len() != len(all) || !slices.Equal(sorted(got), sorted(all)) {
		t.Fatalf("%d entries: %v\nwant %v", table.Len(), got, all)
	}
	if got := table.CountKeys(); got != len(keys) {
		t.Fatalf("%d keys, want %d", got, len(keys))
	}
	if got := slices.Sorted(table.Keys()); !slices.Equal(got, slices.Sorted(maps.Keys(keys))) {
		t.Fatalf("keys %v, want %v", got, keys)
	}
	for key := range 12 {
		with := slices.DeleteFunc(slices.Clone(all), func(e ticket) bool { return e.key != key })
		if got := slices.Collect(table.With(key)); !slices.Equal(sorted(got), sorted(with)) {
			t.Fatalf("with key %d: %v, want %v", key, got, with)
		}
		if got := table.Get(key); len(with) > 0 && !slices.Contains(with, got) || len(with) == 0 && got != (ticket{}) {
			t.Fatalf("key %d: %v, want one of %v", key, got, with)
		}
	}
}

func history(t *testing.T, steps []byte) {
	var table Table[int, ticket]
	want := map[ticket]int{}
	for i := 0; i+1 < len(steps) && i < 1000; i += 2 {
		// Key 0 gets a quarter of all entries, so that it crowds.
		e := ticket{key: max(0, int(steps[i]%16)-4), number: 1 + int(steps[i+1]%32)}
		if steps[i+1] < 128 {
			table.Add(e)
			want[e]++
		} else if had := want[e] > 0; table.Remove(e) != had {
			t.Fatalf("removed %v: %t, want %t", e, !had, had)
		} else if had {
			if want[e]--; want[e] == 0 {
				delete(want, e)
			}
		}
		replace(t, &table, want, steps[i], e)
		if i%32 == 0 { // it takes longer than the steps
			check(t, &table, want)
		}
	}
	check(t, &table, want)
}

// replace puts another entry in the place of one, now and then.
func replace(t *testing.T, table *Table[int, ticket], want map[ticket]int, step byte, old ticket) {
	if step%8 != 0 {
		return
	}
	e := ticket{key: old.key, number: 1 + int(step)}
	if had := want[old] > 0; table.Replace(old, e) != had {
		t.Fatalf("replaced %v: %t, want %t", old, !had, had)
	} else if had {
		want[e]++
		if want[old]--; want[old] == 0 {
			delete(want, old)
		}
	}
}

// TestManyOfOneKey: the time of an operation on one entry does not depend on the number of
// entries with its key.
func TestManyOfOneKey(t *testing.T) {
	const n = 200_000 // with a walk over all of them: 20,000,000,000 steps
	var table Table[int, ticket]
	for i := range n {
		table.Add(ticket{1, i + 1})
	}
	for i := range n {
		if !table.Replace(ticket{1, i + 1}, ticket{1, n + i + 1}) {
			t.Fatalf("entry %d is not there", i)
		}
	}
	if table.Len() != n || table.CountKeys() != 1 {
		t.Fatalf("%d entries with %d keys", table.Len(), table.CountKeys())
	}
	for i := range n {
		if !table.Remove(ticket{1, n + i + 1}) {
			t.Fatalf("entry %d is not there", i)
		}
	}
	if table.Len() != 0 || table.CountKeys() != 0 || table.crowds[1] != nil {
		t.Errorf("left behind: %d entries", table.Len())
	}
}

func FuzzTable(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		steps := make([]byte, 600)
		for i := range steps {
			steps[i] = byte(random.Uint32())
			if i%2 == 1 && i < 300 { // grows first
				steps[i] &= 127
			}
		}
		f.Add(steps)
	}
	f.Fuzz(history)
}

func TestGivesMemoryBack(t *testing.T) {
	var table Table[int, ticket]
	for i := range 1000 {
		table.Add(ticket{i, 1})
	}
	if len(table.slots) != 2048 {
		t.Errorf("%d slots for 1000 entries", len(table.slots))
	}
	for i := range 990 {
		table.Remove(ticket{i, 1})
	}
	if len(table.slots) > 128 {
		t.Errorf("%d slots for 10 entries", len(table.slots))
	}
	for i := range 1000 {
		table.Remove(ticket{i, 1})
	}
	if table.slots != nil || table.Len() != 0 {
		t.Errorf("%d slots and %d entries in an empty table", len(table.slots), table.Len())
	}
}
