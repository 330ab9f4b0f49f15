// Package materialize lets the webhook and the controller write ResourceSlicePatches into
// ResourceSlices ([materialize] decides what): a [Merger] at admission, and a [Resyncer]
// that writes, without a change, the slices that are not as they should be, so that
// admission merges them again.
package materialize
