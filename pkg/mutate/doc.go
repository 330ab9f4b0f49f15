// Package mutate holds the defaults for the objects of resource.k8s.io.
//
// A [Default] is a value: a stable ID, its documentation and a pure function that
// fills in what is missing in one object and reports each [Change] with its place.
// The [Table] of a kind is the list of its defaults. To add one, append it to the
// table of its kind and put its examples into examples/<ID>.txtar.
//
// Defaults are idempotent: applied to their own result they change nothing. They
// are changes of single values and not of whole objects, so that a field which
// this version does not know survives untouched; see
// docs/decisions/0002-changes-are-json-patch-operations.md.
//
// The package knows no client and no clock: the time of the write is a parameter.
package mutate
