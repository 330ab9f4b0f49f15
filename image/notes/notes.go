// Package notes takes the notes of a release from the changelog.
package notes

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var heading = regexp.MustCompile(`^## \[(.*?)\]`)

// Of returns the section of a version, which is a semantic version with its v, without its
// heading. Links to files lead to the tree of that version below source, the address of the
// repository.
func Of(changelog, version, source string) (string, error) {
	want := strings.TrimPrefix(version, "v")
	var section strings.Builder
	found, fenced := false, false
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if match := heading.FindStringSubmatch(line); match != nil && !fenced {
			if found {
				break
			}
			found = match[1] == want
			continue
		}
		if found && !fenced {
			line = linked(line, source+"/blob/"+version)
		}
		if found {
			section.WriteString(line)
		}
	}
	text := strings.TrimSpace(section.String())
	switch {
	case !found:
		return "", fmt.Errorf("CHANGELOG.md: no section [%s]: rename Unreleased to the version and the date", want)
	case text == "":
		return "", fmt.Errorf("CHANGELOG.md: the section [%s] is empty", want)
	}
	return text + "\n", nil
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// linked replaces links to files.
func linked(line, tree string) string {
	return link.ReplaceAllStringFunc(line, func(whole string) string {
		target := link.FindStringSubmatch(whole)[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			return whole
		}
		return "](" + tree + "/" + path.Clean(target) + ")"
	})
}
