package compare

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Mutated returns a case as our defaults would change it, and what they change: its
// object in the form in which the API server hands it to admission. It is an error if
// the defaults change their own result.
func Mutated(c wire.Case) (wire.Case, []mutate.Change, error) {
	judge, _, err := judgeFor(c)
	if err != nil {
		return c, nil, err
	}
	changes, err := judge.fill(c, writeTime)
	if err != nil || len(changes) == 0 {
		return c, nil, nil // Rules reports what cannot be read
	}
	handed, err := judge.handed(c)
	if err != nil {
		return c, nil, err
	}
	if c.Object, err = patched(handed, changes); err != nil {
		return c, nil, fmt.Errorf("our changes %s cannot be applied: %w", places(changes), err)
	}
	again, err := judge.fill(c, writeTime)
	if err == nil && len(again) > 0 {
		err = fmt.Errorf("our defaults change their own result again: %s after %s", places(again), places(changes))
	}
	return c, changes, err
}

// patched applies changes as the webhook has the API server apply them.
func patched(object json.RawMessage, changes []mutate.Change) (json.RawMessage, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var operations []operation
	for _, change := range changes {
		operations = append(operations, operation{"add", change.Pointer, change.Value})
	}
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

// AfterServer returns what our defaults still change in an object that the API
// server has created. There is nothing but the finalizer, which no API server adds.
func AfterServer(c wire.Case, answer wire.Answer) ([]mutate.Change, error) {
	if c.Op != wire.Create || answer.Object == nil || !answer.Accepted() {
		return nil, nil
	}
	judge, _, err := judgeFor(c)
	if err != nil {
		return nil, err
	}
	c.Object = answer.Object
	changes, err := judge.fill(c, writeTime)
	var rest []mutate.Change
	for _, change := range changes {
		if change.Default != "claim-finalizer" {
			rest = append(rest, change)
		}
	}
	return rest, err
}

func places(changes []mutate.Change) (list []string) {
	for _, change := range changes {
		list = append(list, change.Default+" at "+change.Pointer)
	}
	return list
}
