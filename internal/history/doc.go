// Package history keeps the actions on devices, with author and reason, and their holders. It is pure:
// it knows no client and no clock.
//
// A [Memory] has the holders of all devices, of which most are never asked for. A [Store] has a
// [Record] of each device that had a taint, a drain or a reaction, with the holders before that. Both
// are bounded, and a record names the number of what it has left out.
//
// [Store.Observe] compares the present state of a device with its record, so that what happened
// while no controller ran is recorded as far as the state shows it.
package history
