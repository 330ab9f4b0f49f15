// Package clusterdata reads what policies know of a cluster in addition to classes and slices:
// the labels of namespaces, and the keys of the taints that exist.
package clusterdata

import "github.com/dra-steward/dra-steward/pkg/policy"

// Facts are those of a cluster. Either part may be nil, and is then not known.
type Facts struct {
	Namespaces *Namespaces
	TaintKeys  *TaintKeys
}

var _ policy.Facts = Facts{}

// NamespaceLabels returns the labels of a namespace, nil if it is not known.
func (f Facts) NamespaceLabels(name string) map[string]string {
	if f.Namespaces == nil {
		return nil
	}
	return f.Namespaces.Labels(name)
}

// TaintKey reports whether a slice or taint rule has the key, and whether all have been read.
func (f Facts) TaintKey(key string) (known, sure bool) {
	if f.TaintKeys == nil {
		return false, false
	}
	return f.TaintKeys.Known(key)
}
