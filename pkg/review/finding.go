package review

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// Severity says what a finding means for the write. The order is that of weight.
type Severity int

const (
	// Error denies the write.
	Error Severity = iota
	// Warning lets it pass and tells the author.
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// MarshalText writes a severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is one thing that is wrong.
type Finding struct {
	// Rule is the ID of the rule or default that found it.
	Rule     string
	Severity Severity
	// Type is the kind of the problem as the API server names it.
	Type field.ErrorType
	// Path is the place in the notation of field.Path, list items by their names.
	Path string
	// Message says what is wrong and what would be right, without the path.
	Message string
}

func (a *Answer) add(severity Severity, errs field.ErrorList) {
	for _, err := range errs {
		a.Findings = append(a.Findings, Finding{err.Origin, severity, err.Type, err.Field, err.ErrorBody()})
	}
}

func (a *Answer) addWarnings(warnings []mutate.Warning) {
	for _, w := range warnings {
		a.Findings = append(a.Findings, Finding{w.Default, Warning, field.ErrorTypeInvalid, w.Path, w.Message})
	}
}
