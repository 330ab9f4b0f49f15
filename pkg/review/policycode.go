package review

// IsPolicy reports whether the rule of a finding is the code of a policy.
func IsPolicy(rule string) bool { return isPolicy(rule) }
