// Package slicemerge merges ResourceSlicePatches into ResourceSlices at admission ([Merger]), and remembers
// what drivers had published ([PoolOriginals]). Package record decides what is merged.
package slicemerge
