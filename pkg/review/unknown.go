package review

import (
	"bytes"
	"encoding/json"
	"strings"
)

// without returns JSON without the values at paths, which are written as those of
// [validate.Drop]. An API server does not read fields that its minor does not know: there
// they may hold anything. JSON that cannot be read is returned as it is.
func without(data []byte, paths []string) []byte {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object any
	if decoder.Decode(&object) != nil {
		return data
	}
	for _, path := range paths {
		remove(object, strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."))
	}
	rest, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return rest
}

// remove takes out of value what lies at the end of steps: names of fields, several of
// them joined by |, and [] for every item.
func remove(value any, steps []string) {
	if steps[0] == "[]" {
		removeItems(value, steps[1:])
		return
	}
	fields, _ := value.(map[string]any)
	// Of several fields those that a list follows come last: exactly|firstAvailable[].
	names := strings.Split(steps[0], "|")
	for i, name := range names {
		switch rest := steps[1:]; {
		case len(rest) == 0:
			delete(fields, name)
		case i < len(names)-1 && rest[0] == "[]":
			remove(fields[name], rest[1:])
		default:
			remove(fields[name], rest)
		}
	}
}

func removeItems(value any, steps []string) {
	switch items := value.(type) {
	case []any:
		for _, item := range items {
			remove(item, steps)
		}
	case map[string]any:
		for _, item := range items {
			remove(item, steps)
		}
	}
}
