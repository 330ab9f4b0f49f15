package v1alpha1

// Annotations of a DeviceTaintRule that "dra-steward taint" and the controllers write, and that
// "dra-steward taint --list" shows.
const (
	// OwnerAnnotation is who decides about the taint: a person, a team or an object.
	OwnerAnnotation = Group + "/owner"
	// ReasonAnnotation is why the devices are tainted.
	ReasonAnnotation = Group + "/reason"
	// TicketAnnotation is where the work is tracked: a URL or a number.
	TicketAnnotation = Group + "/ticket"
	// ExpiresAnnotation is when the controllers' leader deletes the rule, such as
	// 2026-12-31T18:00:00Z.
	ExpiresAnnotation = Group + "/expires"
)
