package objects

import (
	"encoding/json"
	"iter"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// shrinkRounds bounds the work of Shrink.
const shrinkRounds = 400

// shrinkBatch is how many smaller cases are tried at once.
const shrinkBatch = 50

// Shrink makes a case smaller as long as shows says that it still shows what it
// shows. shows gets several smaller cases at a time and returns the index of the
// first that does, or -1.
func Shrink(c wire.Case, shows func([]wire.Case) (int, error)) (wire.Case, error) {
	for range shrinkRounds {
		smaller, err := shrinkOnce(c, shows)
		if err != nil || smaller == nil {
			return c, err
		}
		c = *smaller
	}
	return c, nil
}

func shrinkOnce(c wire.Case, shows func([]wire.Case) (int, error)) (*wire.Case, error) {
	var batch []wire.Case
	try := func() (*wire.Case, error) {
		found, err := shows(batch)
		if err != nil || found < 0 {
			return nil, err
		}
		return &batch[found], nil
	}
	for smaller, err := range reductions(c) {
		if err != nil {
			return nil, err
		}
		if batch = append(batch, smaller); len(batch) == shrinkBatch {
			if found, err := try(); found != nil || err != nil {
				return found, err
			}
			batch = nil
		}
	}
	return try()
}

// reductions are the cases with one value less, or a shorter one; the greatest steps
// come first.
func reductions(c wire.Case) iter.Seq2[wire.Case, error] {
	return func(yield func(wire.Case, error) bool) {
		for _, part := range []func(*wire.Case) *json.RawMessage{
			func(c *wire.Case) *json.RawMessage { return &c.Object },
			func(c *wire.Case) *json.RawMessage { return &c.Old },
		} {
			if len(*part(&c)) == 0 {
				continue
			}
			object, err := parse(*part(&c))
			if err != nil {
				yield(c, err)
				return
			}
			for reduced := range smallerTrees(object) {
				smaller := c
				*part(&smaller), err = json.Marshal(reduced)
				if !yield(smaller, err) {
					return
				}
			}
		}
	}
}

func smallerTrees(object map[string]any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range nodes(object) {
			for _, step := range steps {
				reduced := clone(object).(map[string]any)
				if step(nodes(reduced)[i]) && !yield(reduced) {
					return
				}
			}
		}
	}
}

// steps make a node smaller, if they can.
var steps = []func(node) bool{
	func(n node) bool { n.remove(); return true },
	func(n node) bool {
		list, is := n.value.([]any)
		if !is || len(list) < 4 {
			return false
		}
		n.set(list[:len(list)/2])
		return true
	},
	func(n node) bool {
		text, is := n.value.(string)
		if !is || len(text) < 8 {
			return false
		}
		n.set(text[:len(text)/2])
		return true
	},
}
