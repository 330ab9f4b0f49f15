package lint

import (
	"fmt"
	"strings"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// annotation is a report as a workflow command of GitHub Actions, which shows it at the
// line of the change.
func annotation(r Diagnostic, here string) string {
	level := "warning"
	if r.Severity == validate.Error {
		level = "error"
	}
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d,title=%s::%s", level, property(relative(here, r.File)), r.Line, r.Column,
		property("dra-steward: "+r.Rule), message(r.Text()))
}

// message escapes the text of a workflow command.
func message(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// property escapes the value of a property of a workflow command.
func property(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(message(text))
}
