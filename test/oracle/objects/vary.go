package objects

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Vary returns one of cases with one value of its object changed, determined by a seed
// and a number. Another case says what might stand there.
func Vary(seed, number uint64, cases []wire.Case) (wire.Case, error) {
	r := random{Rand: rand.New(rand.NewPCG(seed, number))}
	c, other := cases[r.IntN(len(cases))], cases[r.IntN(len(cases))]
	object, err := parse(c.Object)
	if err != nil {
		return c, fmt.Errorf("case %s: %w", c.ID, err)
	}
	donor, err := parse(other.Object)
	if err != nil {
		return c, fmt.Errorf("case %s: %w", other.ID, err)
	}
	c.ID = fmt.Sprintf("%s~%d/%d", c.ID, seed, number)
	stored := c.Op == wire.Create && r.chance(0.3)
	if stored {
		c.Op = wire.Update
		if c.Old, err = Stored(c.Object); err != nil {
			return c, err
		}
	}
	metadata := object["metadata"]
	if c.Op == wire.Update {
		delete(object, "metadata") // a stored object has it, complete
	}
	Spoil(r.Rand, object, donor)
	if c.Op == wire.Update {
		object["metadata"] = metadata
	}
	if c.Object, err = json.Marshal(object); err != nil || !stored {
		return c, err
	}
	c.Object, err = Stored(c.Object)
	return c, err
}

// Stored returns an object with metadata that every stored object has, and no other.
func Stored(object json.RawMessage) (json.RawMessage, error) {
	fields, err := parse(object)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{"name": "a"}
	if kind, _ := fields["kind"].(string); strings.HasPrefix(kind, "ResourceClaim") {
		metadata["namespace"] = "default"
	}
	fields["metadata"] = metadata
	SetTimes(fields)
	return json.Marshal(fields)
}
