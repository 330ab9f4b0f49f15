// Package materialize lets the controller write, without a change, the slices that are not as
// ResourceSlicePatches want them ([Resyncer]), so that admission merges them again (package slicemerge), and
// stores what drivers had published ([Recorder]).
package materialize
