package validate

// Conditions are what a verdict depends on besides the object. The zero value is a
// default API server of the newest minor and its own limits.
type Conditions struct {
	Limits  Limits
	Profile Profile
}
