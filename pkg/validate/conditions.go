package validate

import "time"

// Conditions are what a verdict depends on besides the object. The zero value is a
// default API server of the newest minor and its own limits.
type Conditions struct {
	Limits  Limits
	Profile Profile
	// Now is the time of the write; zero leaves out the rules that ask for it.
	Now time.Time
	// World is what exists beside the object; nil leaves out the rules that look
	// there.
	World World
	// Expressions remembers compiled expressions; nil compiles them anew for every
	// object.
	Expressions *Expressions

	// stored says that an API server has accepted selectors and configurations before.
	stored bool
}
