// Package existing keeps what exists in addition to a checked object, read once from a cluster or from files.
package existing

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Objects are those that rules and policies read. The zero value has none.
type Objects struct {
	validate.Objects
	// Complete is true if all ResourceSlices and DeviceTaintRules are here: a key that none of them has does not exist.
	Complete bool
	// Added are what lint has added, for the objects of an input to be added to.
	Added []any

	labels map[string]map[string]string
	keys   map[string]bool
}

var _ policy.ClusterData = (*Objects)(nil)

// Add adds an object, which then may not change. Kinds that neither rules nor policies read are ignored.
func (s *Objects) Add(object any) {
	switch object := object.(type) {
	case *corev1.Namespace:
		if s.labels == nil {
			s.labels = map[string]map[string]string{}
		}
		s.labels[object.Name] = object.Labels
		return
	case *resourceapi.DeviceTaintRule:
		s.addKey(object.Spec.Taint.Key)
		return
	case *resourceapi.ResourceSlice:
		for i := range object.Spec.Devices {
			for _, taint := range object.Spec.Devices[i].Taints {
				s.addKey(taint.Key)
			}
		}
	}
	s.Objects.Add(object)
}

func (s *Objects) addKey(key string) {
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	s.keys[key] = true
}

// HasNamespace reports whether there is a namespace.
func (s *Objects) HasNamespace(name string) bool { _, has := s.labels[name]; return has }

// NamespaceLabels returns the labels of a namespace, nil if it is not known.
func (s *Objects) NamespaceLabels(name string) map[string]string { return s.labels[name] }

// TaintKey reports whether a slice or taint rule has the key, and whether that is certain.
func (s *Objects) TaintKey(key string) (known, sure bool) {
	known = s.keys[key]
	return known, known || s.Complete
}
