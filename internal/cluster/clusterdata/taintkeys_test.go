package clusterdata

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func slice(name string, keys ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, key := range keys {
		device := resourceapi.Device{Name: "gpu", Taints: []resourceapi.DeviceTaint{{Key: key}, {Key: key, Effect: "NoExecute"}}}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

// TestTaintKeysCount: a key is known as long as one slice has it.
func TestTaintKeysCount(t *testing.T) {
	k := NewTaintKeys(tracker.New(tracker.Options{}))
	known := func(key string) bool { is, _ := k.Known(key); return is }
	k.change(nil, slice("a", "x", "y"))
	k.change(nil, slice("b", "x"))
	k.change(slice("a", "x", "y"), slice("a", "z", "z"))
	if !known("x") || known("y") || !known("z") {
		t.Errorf("x %v, y %v, z %v, want true, false, true", known("x"), known("y"), known("z"))
	}
	k.change(slice("b", "x"), nil)
	k.change(slice("a", "z", "z"), slice("a"))
	if len(k.slices)+len(k.keys) > 0 {
		t.Errorf("left: %v, %v", k.slices, k.keys)
	}
	if _, sure := k.Known("x"); sure {
		t.Error("sure before anything has been read")
	}
}

// TestFactsOfNothing: who reads nothing knows nothing.
func TestFactsOfNothing(t *testing.T) {
	if known, sure := (Data{}).TaintKey("a"); known || sure || (Data{}).NamespaceLabels("a") != nil {
		t.Error("no facts, but something is known")
	}
}
