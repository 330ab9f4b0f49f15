// Package certificate keeps the webhook's serving certificate in one Secret, and its
// authority in the caBundle of the webhook configurations. It reads and patches these
// objects by name and needs no other right.
//
// A [State] is what the Secret holds. [Settings.Decide] returns the next state; it has no
// client and no clock, and makes no keys. No request is lost when the certificate changes:
// an authority is trusted everywhere before anything that it signed is served, and stays
// trusted for a while after the last of it was.
package certificate
