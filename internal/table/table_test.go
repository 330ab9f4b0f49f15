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
		e := ticket{key: int(steps[i] % 12), number: 1 + int(steps[i+1]%32)}
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
		if i%32 == 0 { // it takes longer than the steps
			check(t, &table, want)
		}
	}
	check(t, &table, want)
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
