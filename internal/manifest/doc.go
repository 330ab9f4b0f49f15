// Package manifest reads Kubernetes manifests from files, folders and streams,
// and knows the position of each value. A [Reader] turns text into [Document]s,
// one per Kubernetes object: YAML streams are split as kubectl splits them,
// JSON values may follow each other, and lists are unfolded into their items.
// The content of a document is JSON as the API server would see it, made by
// sigs.k8s.io/yaml; the lines and columns come from a second, position-keeping
// parse of the same text that happens when [Document.Position] is first asked
// for one. [Decode] turns a document of the group resource.k8s.io, in any
// version that is still served, into its v1 type and reports every unknown
// field, duplicate key and wrong type as a [Problem] with its own position.
// What cannot be read is an [Error] with its place, and what follows it is
// read nevertheless. The package knows no rules about the objects.
package manifest
