package wire

import (
	"fmt"
	"maps"
	"slices"
)

// Removed returns the paths of what was, a tree as encoding/json reads it, has and is
// lacks. An empty value is nothing. A list that has become shorter is removed itself.
func Removed(at string, was, is any) (paths []string) {
	switch was := was.(type) {
	case map[string]any:
		fields, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			paths = append(paths, Removed(at+"."+name, was[name], fields[name])...)
		}
	case []any:
		items, _ := is.([]any)
		if len(items) < len(was) {
			return []string{at}
		}
		for i := range was {
			paths = append(paths, Removed(fmt.Sprintf("%s[%d]", at, i), was[i], items[i])...)
		}
	default:
		if is == nil && !slices.Contains([]any{nil, "", false, 0.0}, was) {
			return []string{at}
		}
	}
	return paths
}
