package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Spoil changes one value of object: it is removed, emptied, made one too long or one
// too large, doubled, swapped with another, or replaced by the one that donor has in
// its place.
func Spoil(source *rand.Rand, object, donor map[string]any) {
	r := random{Rand: source, wild: 1}
	list := nodes(object)
	if len(list) == 0 {
		return
	}
	n := list[r.IntN(len(list))]
	for range 3 { // metadata is of little interest
		if n.path[0] != "metadata" {
			break
		}
		n = list[r.IntN(len(list))]
	}
	switch p := r.Float64(); {
	case p < 0.15:
		n.remove()
	case p < 0.3:
		graft(r, object, donor)
	case p < 0.33:
		n.set(pick[any](r, nil, "", []any{}, map[string]any{}, number(0), false))
	default:
		n.set(r.spoiled(n))
	}
}

// graft puts a value of donor into object.
func graft(r random, object, donor map[string]any) {
	list := nodes(donor)
	for range 5 {
		n := list[r.IntN(len(list))]
		if n.path[0] != "metadata" && follow(object, n.path, clone(n.value)) {
			return
		}
	}
}

// spoiled returns another value for a node.
func (r random) spoiled(n node) any {
	switch value := n.value.(type) {
	case string:
		return r.spoiledText(value)
	case json.Number:
		return r.spoiledNumber(value)
	case bool:
		return !value
	case []any:
		return r.spoiledList(value)
	case map[string]any:
		return r.spoiledMap(n.last(), value)
	default:
		return r.text("")
	}
}

// lengths are the greatest lengths of texts, and one more.
var lengths = []int{32, 33, 63, 64, 65, 128, 129, 253, 254, 256, 257, 10240, 10241}

func (r random) spoiledText(value string) any {
	switch r.IntN(8) {
	case 0:
		return ""
	case 1:
		n := lengths[r.IntN(len(lengths))]
		if len(value) > n {
			return value[:n]
		}
		return value + strings.Repeat("a", n-len(value))
	case 2:
		return pick(r, value+"-", "-"+value, value+"/", "/"+value, value+"/b", "a/"+value, value+".", value+"_", value+" ", value+"\n")
	case 3:
		return pick(r, strings.ToUpper(value), strings.ToLower(value))
	case 4:
		return value + "x"
	default:
		return pick(r, wildTexts...)
	}
}

func (r random) spoiledNumber(value json.Number) any {
	whole, err := value.Int64()
	if err != nil {
		return number(0)
	}
	return number(pick(r, 0, 1, -1, whole+1, whole-1, -whole, math.MaxInt32, math.MaxInt64, 33))
}

// sizes are the greatest sizes of lists and maps, and one more.
var sizes = []int{2, 3, 4, 5, 8, 9, 10, 11, 16, 17, 32, 33, 48, 49, 64, 65, 128, 129, 256, 257}

func (r random) spoiledList(value []any) any {
	if len(value) == 0 {
		return value
	}
	i, j := r.IntN(len(value)), r.IntN(len(value))
	switch r.IntN(5) {
	case 0:
		return []any{}
	case 1:
		return append(slices.Clone(value), clone(value[i]))
	case 2:
		swapped := slices.Clone(value)
		swapped[i], swapped[j] = swapped[j], swapped[i]
		return swapped
	default:
		return r.grown(value)
	}
}

// grown makes a list as long as a limit or one longer, of items that differ.
func (r random) grown(value []any) []any {
	n := sizes[r.IntN(len(sizes))]
	if len(value) > n {
		return value[:n]
	}
	list := slices.Clone(value)
	for i := len(value); i < n; i++ {
		item := clone(value[i%len(value)])
		switch item := item.(type) {
		case map[string]any:
			for _, key := range []string{"name", "uid", "type", "counterSet"} {
				if name, is := item[key].(string); is {
					item[key] = fmt.Sprintf("%s-%d", name, i)
				}
			}
			list = append(list, item)
		case string:
			list = append(list, fmt.Sprintf("%s%d", item, i))
		default:
			list = append(list, item)
		}
	}
	return list
}

// keyed are the fields whose keys are no field names.
var keyed = []string{"attributes", "capacity", "counters", "requests", "nodeAllocatableResources", "consumedCapacity", "labels", "annotations"}

func (r random) spoiledMap(field string, value map[string]any) any {
	if !slices.Contains(keyed, field) || len(value) == 0 {
		return map[string]any{}
	}
	keys := slices.Sorted(maps.Keys(value))
	key := keys[r.IntN(len(keys))]
	changed := maps.Clone(value)
	switch r.IntN(3) {
	case 0:
		n := sizes[r.IntN(len(sizes))]
		for i := len(value); i < n; i++ {
			changed[fmt.Sprintf("k%d", i)] = clone(value[key])
		}
	case 1:
		delete(changed, key)
		changed[r.spoiledText(key).(string)] = value[key]
	default:
		changed[pick(r, wildTexts...)] = clone(value[key])
	}
	return changed
}
