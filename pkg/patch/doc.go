// Package patch applies ResourceSlicePatches to ResourceSlices, as KEP-5027 describes
// it. It is pure: it knows no client, no clock and no logger, and it changes nothing
// that it is given. A merged slice shares with the published one whatever is equal.
//
// The short way is [Apply]. Who keeps many slices up to date remembers the parts: a
// [Patch] is compiled once per generation and per generation of its class, an
// [Evaluation] holds what expressions say of the devices of one slice, a [Match] says
// which of them a patch applies to, and [Merge] makes the slice. All filters look at
// devices as they were published, so that a Match depends on nothing but its patch and
// the slice.
package patch
