package validate

import (
	"fmt"
	"slices"
)

// Severity is the effect of a finding on a write, the most severe first.
type Severity int

const (
	// Error denies the write.
	Error Severity = iota
	// Warning admits it with a warning to the author.
	Warning
	// Audit admits it and records the finding in the audit log, the log and the metrics.
	Audit
	// Off disables the rule.
	Off
)

var severities = [...]string{"error", "warning", "audit", "off"}

// String returns "error", "warning", "audit" or "off".
func (s Severity) String() string {
	if s < Error || s > Off {
		return fmt.Sprintf("severity %d", int(s))
	}
	return severities[s]
}

// MarshalText writes a severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// SeverityNames are what ParseSeverity reads.
func SeverityNames() []string { return slices.Clone(severities[:]) }

// ParseSeverity reads what String writes.
func ParseSeverity(name string) (Severity, error) {
	for s, known := range severities {
		if name == known {
			return Severity(s), nil
		}
	}
	return Error, fmt.Errorf("severity %q: must be error, warning, audit or off", name)
}
