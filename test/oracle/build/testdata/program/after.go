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
// and the paths of what was removed since before.
func after(obj runtime.Object, gvk schema.GroupVersionKind, before []byte) (json.RawMessage, []string, error) {
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
	if err := json.Unmarshal(before, &was); err != nil {
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

// removed returns the paths of what was has and is lacks.
func removed(at string, was, is any) (paths []string) {
	switch was := was.(type) {
	case nil:
		return nil
	case map[string]any:
		fields, same := is.(map[string]any)
		if !same {
			return []string{at}
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			paths = append(paths, removed(at+"."+name, was[name], fields[name])...)
		}
	case []any:
		items, same := is.([]any)
		if !same || len(items) < len(was) {
			return []string{at}
		}
		for i := range was {
			paths = append(paths, removed(fmt.Sprintf("%s[%d]", at, i), was[i], items[i])...)
		}
	default:
		if is == nil {
			return []string{at}
		}
	}
	return paths
}
