package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"oracle/wire"
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
		dropped = append(dropped, wire.Removed(part, was[part], is[part])...)
	}
	return now, dropped, nil
}
