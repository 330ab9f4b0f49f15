package cmdutil

import (
	"regexp"
	"strings"
)

// program is the name of the program in texts.
const program = "dra-steward"

// mention matches the program with one of its commands in a text. A namespace, a chart, a host or
// a policy of the same name has no command after it, or has a part of a name before it.
var mention = regexp.MustCompile(`(^|[^-/.\w])` + program + ` (` + strings.Join(Commands(), "|") + `)\b`)

// Commands are those of the program, by which Called finds them in texts.
func Commands() []string {
	return []string{"acknowledge", "audit", "capacity", "completion", "config", "console", "controller", "devices", "drain",
		"explain", "fit", "history", "impact", "lint", "metrics", "node", "options", `policy (?:bench|docs|eval|explain|export|lint|list|new|test)`,
		"report", "roll", "serve", "taint", "uninstall", "untaint", "version", "whatif", "why"}
}

// Program is the name the program was called by, such as "kubectl dra-steward".
func (s Streams) Program() string {
	if s.Name != "" {
		return s.Name
	}
	return program
}

// Called puts the name the program was called by into the commands of a text. Packages that do
// not know that name write "dra-steward COMMAND".
func (s Streams) Called(text string) string {
	if s.Name == "" {
		return text
	}
	return mention.ReplaceAllString(text, "${1}"+strings.ReplaceAll(s.Name, "$", "$$")+" ${2}")
}
