// Package clusterdata reads what policies know of a cluster in addition to classes and slices:
// the labels of namespaces, and the keys of the taints that exist.
package clusterdata

import "github.com/dra-steward/dra-steward/pkg/policy"

// Data are those of a cluster. Either part may be nil, and is then not known.
type Data struct {
	Namespaces *Namespaces
	TaintKeys  *TaintKeys
}

var _ policy.ClusterData = Data{}

// NamespaceLabels returns the labels of a namespace, nil if it is not known.
func (d Data) NamespaceLabels(name string) map[string]string {
	if d.Namespaces == nil {
		return nil
	}
	return d.Namespaces.Labels(name)
}

// TaintKey reports whether a slice or taint rule has the key, and whether all have been read.
func (d Data) TaintKey(key string) (known, sure bool) {
	if d.TaintKeys == nil {
		return false, false
	}
	return d.TaintKeys.Known(key)
}
