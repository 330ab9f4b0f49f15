package objects

import (
	"encoding/json"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// shrinkPasses bounds how often Shrink starts again.
const shrinkPasses = 8

// shrinkBatch is how many smaller cases are tried at once.
const shrinkBatch = 50

// Shrink makes a case smaller as long as shows says that it still shows what it
// shows. shows gets several smaller cases at a time and returns the index of the
// first that does, or -1.
func Shrink(c wire.Case, shows func([]wire.Case) (int, error)) (wire.Case, error) {
	for range shrinkPasses {
		smaller, err := shrinkOnce(c, shows)
		if err != nil || len(smaller.Object)+len(smaller.Old) == len(c.Object)+len(c.Old) {
			return smaller, err
		}
		c = smaller
	}
	return c, nil
}

// shrinkOnce tries every reduction, each on what those before have left.
func shrinkOnce(c wire.Case, shows func([]wire.Case) (int, error)) (wire.Case, error) {
	for next := 0; ; {
		batch, err := reductions(c, next, shrinkBatch)
		if err != nil || len(batch) == 0 {
			return c, err
		}
		found, err := shows(batch)
		if err != nil {
			return c, err
		}
		if found < 0 {
			next += len(batch)
			continue
		}
		c = batch[found]
		next += found
	}
}

// reductions are up to limit of the cases with one value less, or a shorter one,
// beginning with the number first. The greater steps come first.
func reductions(c wire.Case, first, limit int) (list []wire.Case, err error) {
	for _, part := range []func(*wire.Case) *json.RawMessage{
		func(c *wire.Case) *json.RawMessage { return &c.Object },
		func(c *wire.Case) *json.RawMessage { return &c.Old },
	} {
		if len(*part(&c)) == 0 {
			continue
		}
		object, err := parse(*part(&c))
		if err != nil {
			return nil, err
		}
		all := possible(object)
		for _, r := range all[min(first, len(all)):] {
			if len(list) == limit {
				return list, nil
			}
			smaller := c
			if *part(&smaller), err = json.Marshal(r.apply(object)); err != nil {
				return nil, err
			}
			list = append(list, smaller)
		}
		first = max(0, first-len(all))
	}
	return list, nil
}

// A reduction makes the node of a number smaller.
type reduction struct {
	node int
	step func(node)
}

// possible lists the reductions of a tree.
func possible(object map[string]any) (list []reduction) {
	for i, n := range nodes(object) {
		list = append(list, reduction{i, func(n node) { n.remove() }})
		switch value := n.value.(type) {
		case []any:
			if len(value) >= 4 {
				list = append(list, reduction{i, func(n node) { n.set(value[:len(value)/2]) }})
			}
		case string:
			if len(value) >= 8 {
				list = append(list, reduction{i, func(n node) { n.set(value[:len(value)/2]) }})
			}
		}
	}
	return list
}

// apply returns the reduced tree and leaves the given one as it is.
func (r reduction) apply(object map[string]any) any {
	reduced := clone(object).(map[string]any)
	r.step(nodes(reduced)[r.node])
	return reduced
}
