// Package patch applies ResourceSlicePatches to ResourceSlices, as KEP-5027 describes
// it. It is pure: it knows no client, no clock and no logger, and it changes nothing
// that it is given. A merged slice shares with the published one whatever is equal.
//
// The short way is [Apply]. A caller that keeps many slices up to date keeps the parts: a
// [Patch] is compiled once per generation and per generation of its class, and an [Evaluation]
// holds the results of expressions for the devices of one slice. All filters see devices
// as they were published, so that a match depends only on its patch and the slice.
package patch
