package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// after returns obj as it would be stored, without what differs from run to run,
// and the paths of what it has lost of what was sent: fields that this minor does not
// know, or not with these gates, and those that a client does not write here.
func after(obj runtime.Object, gvk schema.GroupVersionKind, sent []byte) (json.RawMessage, []string, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	accessor.SetUID("")
	accessor.SetCreationTimestamp(metav1.Time{})
	now, err := encode(obj, gvk)
	if err != nil {
		return nil, nil, err
	}
	var was, is map[string]any
	if err := json.Unmarshal(sent, &was); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(now, &is); err != nil {
		return nil, nil, err
	}
	var dropped []string
	for _, part := range []string{"spec", "status"} {
		dropped = append(dropped, removed(part, was[part], is[part])...)
	}
	return now, dropped, nil
}

// removed returns the paths of what was has and is lacks. An empty value is nothing.
func removed(at string, was, is any) (paths []string) {
	switch was := was.(type) {
	case map[string]any:
		fields, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			paths = append(paths, removed(at+"."+name, was[name], fields[name])...)
		}
	case []any:
		items, _ := is.([]any)
		if len(items) < len(was) {
			return []string{at}
		}
		for i := range was {
			paths = append(paths, removed(fmt.Sprintf("%s[%d]", at, i), was[i], items[i])...)
		}
	default:
		if is == nil && !slices.Contains([]any{nil, "", false, 0.0}, was) {
			return []string{at}
		}
	}
	return paths
}
