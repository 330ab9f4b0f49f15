// Package loglines holds what every line of the programs' logs must be.
package loglines

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// noise are what a log for people on call has no place for: names of Go types and functions, the
// zero time, and lines of libraries that name no fact about the cluster.
func noise() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`0001-01-01`),
		regexp.MustCompile(`\*v1\.|\.func\d|\(\*[A-Z]|%!|<nil>|0xc0`),
		regexp.MustCompile(`"(Waiting|Done waiting|Starting (reflector|EventSource|Controller|workers))"`),
		regexp.MustCompile(`(?i)caches are synced|waiting for caches`),
	}
}

// Check returns what is wrong with a line of dra-steward: it must be JSON with a time, a level and
// a message, without noise.
func Check(line string) error {
	var entry struct{ Time, Level, Msg string }
	if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
		return fmt.Errorf("not a line with time, level and msg (%w): %s", err, line)
	}
	return Quiet(line)
}

// Quiet returns the noise in a line.
func Quiet(line string) error {
	for _, pattern := range noise() {
		if found := pattern.FindString(line); found != "" {
			return fmt.Errorf("%q in %s", found, line)
		}
	}
	return nil
}
