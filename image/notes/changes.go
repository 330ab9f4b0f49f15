package notes

import (
	"fmt"
	"regexp"
	"strings"
)

// A Change is an entry of the changelog as Artifact Hub shows it.
type Change struct {
	// Kind is added, changed, deprecated, removed, fixed or security.
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

var (
	kind  = regexp.MustCompile(`^### (Added|Changed|Deprecated|Removed|Fixed|Security)\s*$`)
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Changes returns the entries of a version, which is a semantic version with its v, as plain
// text. An entry is an item of a list below one of the headings of Keep a Changelog.
func Changes(changelog, version string) ([]Change, error) {
	text, err := Of(changelog, version, "")
	if err != nil {
		return nil, err
	}
	var changes []Change
	open, heading := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch match := kind.FindStringSubmatch(line); {
		case match != nil:
			heading, open = strings.ToLower(match[1]), false
		case strings.HasPrefix(line, "- "):
			if heading == "" {
				return nil, fmt.Errorf("CHANGELOG.md: %q is below none of the headings Added, Changed, Deprecated, Removed, Fixed, Security", line)
			}
			changes, open = append(changes, Change{Kind: heading, Description: line[2:]}), true
		case open && strings.HasPrefix(line, "  "):
			changes[len(changes)-1].Description += " " + strings.TrimSpace(line)
		default:
			open = false
		}
	}
	for i := range changes {
		changes[i].Description = plain(changes[i].Description)
	}
	return changes, nil
}

// plain returns the text without links and marks.
func plain(markdown string) string {
	return strings.ReplaceAll(title.ReplaceAllString(markdown, "$1"), "`", "")
}
