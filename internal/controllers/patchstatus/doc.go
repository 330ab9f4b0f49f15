// Package patchstatus writes the effect of each ResourceSlicePatch into its status.
//
// [Decide] is pure: it makes the status of what a [tracker.PatchReport] says. A [Writer]
// looks at the newest view of a tracker again and again and writes what has changed, at
// a rate, and reports what is wrong in events: one for each generation of a patch and
// reason, however many devices it is about. The name of such an event follows from the
// generation and the reason, so that neither a restart nor a second writer says it twice.
//
// Only one writer should work at a time: it belongs to what a leader does.
package patchstatus
