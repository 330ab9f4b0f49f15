// Package record writes what ResourceSlicePatches say into ResourceSlices, for
// clusters whose scheduler cannot be replaced, and takes it back.
//
// A driver that finds its slice changed takes the new values over as its own: drivers that
// publish with k8s.io/dynamic-resource-allocation/resourceslice do so with the answer to
// every write. The values that the driver published before are therefore kept in an [Originals],
// which an annotation of the slice holds, and each write is read with it: a value that we have
// written is replaced by the published one, any other one is the driver's own.
//
// A value stays in the record after its patch is gone, as a tombstone: the driver may write
// it once more. The answer to that write corrects the driver, and some time later
// ([GracePeriod]) the value counts as the driver's own again.
//
// One case cannot be detected: a driver that begins to publish the very value that a patch
// has written. Until the patch is gone, and the driver has published again after that, the
// value before counts.
//
// The package is pure: it knows no client and no clock. [Read] reads a write, [DriverWrite.Merge]
// makes of it what is to be stored, and [Published] gives a reader what the driver said.
package record
