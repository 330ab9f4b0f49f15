// Package objects makes writes to put to an oracle: objects of every kind of
// resource.k8s.io with any of their fields, most of them valid, and changes of
// single values in them that make them invalid in one way (see [Spoil]). The case of
// a seed and a number is always the same one. [Shrink] makes a case smaller as long
// as it shows what it shows.
package objects
