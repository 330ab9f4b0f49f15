// Package model says what ResourceSlices must contain while ResourceSlicePatches are written into
// them. It follows the text of docs/patches.md and drivers that publish with
// k8s.io/dynamic-resource-allocation/resourceslice, and uses no code of dra-steward but its types:
//
//   - A pool has one slice for each one that its driver has published last, in that order and of one
//     generation. Each device has the driver's values, overridden by patches.
//   - A patch applies to the devices that match driver, pool, device and selectors, as the driver
//     published them. If an expression fails for a device, the patch does not apply.
//   - For each attribute and capacity the higher priority wins, then the older patch, then the first
//     by name. A removal has a priority like a value.
//   - Names have the domain of the driver if they have none. The driver's spelling is kept.
//   - Taints are the driver's.
//
// The page excuses a slice that a driver has recreated of values that it had adopted, if neither
// webhook nor controller ran at that time and the copy of the driver's values was missing: see
// [Excused]. It also names values that cannot be recognized as the driver's; the histories of the
// campaign avoid them. Limits of devices and records are not part of the model.
package model
