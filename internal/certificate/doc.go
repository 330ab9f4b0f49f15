// Package certificate decides when the serving certificate of the webhook is replaced,
// so that no request is lost on the way: an authority is trusted everywhere before
// anything that it signed is served, and trusted for a while after the last of it was.
//
// A [State] is what one Secret holds. [Settings.Decide] says what comes next; it knows
// no client, no clock and makes no keys.
package certificate
