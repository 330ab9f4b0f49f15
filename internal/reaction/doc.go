// Package reaction decides what happens in a DeviceReaction, which keeps a DeviceDrain of each device
// that is sick.
//
// [Decide] decides what comes next in a reaction: which drains it creates, pauses, resumes and
// deletes, and what its status says. It is pure: [Causes] finds the sick devices, and Decide
// takes these, the reaction with its status, the drains, and the time. All that it remembers is in
// the status and in the drains, so that a controller that restarts decides the same. The name of
// a drain follows from the reaction and the device, so that no device gets a second one.
//
// A reaction evicts no pods itself: the drain does, within its budgets and windows. The
// controller asks the thresholds of the guard before it creates a drain, together with the
// evictions of the last minutes, and creates none above them.
package reaction
