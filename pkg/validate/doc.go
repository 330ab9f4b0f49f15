// Package validate holds the rules for the objects of resource.k8s.io.
//
// A [Rule] is a value: a stable ID, its documentation and a pure check. The
// [Table] of a kind is the list of its rules and at the same time their
// registry: the denial, the metric label, "dra-steward explain", docs/rules.md
// and an exemption all use its ID and its text. To add a rule,
// append it to the table of its kind and put its examples into
// examples/<ID>.txtar; a test fails when either is missing.
//
// Checks never compare an object with its predecessor. [Table.ValidateUpdate]
// does that once for all of them: what was wrong before and has not grown is
// tolerated, what is new or has grown is an error.
//
// Paths name list items by their name (spec.devices[gpu-1].taints) where they
// have one, so that a person finds the device and an item that moves in its list
// stays the same item. A second item of the same name goes by its index.
//
// The package knows no client, no clock and no configuration file. Limits come
// as a parameter; their zero value is what the API server allows.
package validate
