package validate

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Conditions are what a verdict depends on besides the object. The zero value is a
// default API server of the newest minor and its own limits.
type Conditions struct {
	Limits  Limits
	Profile Profile
	// Now is the time of the write; zero leaves out the rules that ask for it.
	Now time.Time
	// Author is who writes, as the API server has authenticated them; nil leaves out
	// the rules that ask for it.
	Author *authenticationv1.UserInfo
	// Publishers are who may publish for a driver, by its name; anybody for a driver
	// that is not named.
	Publishers map[string]Publishers
	// ForceDeleters are who may delete pods by force, beside those who have to.
	ForceDeleters Deleters
	// World is what exists beside the object; nil leaves out the rules that look
	// there.
	World World
	// Parameters is what is known about the parameters of drivers; nil leaves out the
	// rules that ask for it.
	Parameters Parameters
	// Expressions remembers compiled expressions; nil compiles them anew for every
	// object.
	Expressions *Expressions
	// Turns bound the time in which selectors are evaluated on the devices of the World;
	// nil sets no bound.
	Turns Turns
	// Evaluations remembers what came of that; nil evaluates anew for every object.
	Evaluations *Evaluations

	// stored says that an API server has accepted selectors and configurations before.
	stored bool
	// walks is there while a table goes through its rules.
	walks *walks
}

// before are the conditions under which the stored object is looked at: it is nobody's
// write, so that no problem with an author excuses that of another.
func (c Conditions) before() Conditions {
	c.Author = nil
	return c
}

func (c Conditions) evaluations() *Evaluations {
	if c.Evaluations == nil {
		return &Evaluations{}
	}
	return c.Evaluations
}
