package doctest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestThreats: the threat model has each attack of the page about security, and no other.
func TestThreats(t *testing.T) {
	attacks := column(t, "docs/security.md", "## Attacks", 0)
	threats := column(t, "docs/self-assessment.md", "## Threat model", 1)
	if len(attacks) < 30 {
		t.Errorf("%d attacks in docs/security.md", len(attacks))
	}
	for _, attack := range attacks {
		if !slices.Contains(threats, attack) {
			t.Errorf("docs/self-assessment.md lacks the attack %q of docs/security.md", attack)
		}
	}
	for i, threat := range threats {
		if !slices.Contains(attacks, threat) || slices.Contains(threats[:i], threat) {
			t.Errorf("docs/self-assessment.md: %q is not an attack of docs/security.md, or is a second row", threat)
		}
	}
	known := []string{"Spoofing", "Tampering", "Repudiation", "Information disclosure", "Denial of service", "Elevation of privilege"}
	for _, category := range column(t, "docs/self-assessment.md", "## Threat model", 0) {
		if !slices.Contains(known, category) {
			t.Errorf("docs/self-assessment.md: %q is not one of STRIDE", category)
		}
	}
}

// column returns the cells of a column of the table below a heading.
func column(t *testing.T, page, heading string, n int) (cells []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		if rows++; rows > 2 { // behind the head and the line below it
			cells = append(cells, strings.Split(line, " | ")[n])
			cells[len(cells)-1] = strings.TrimPrefix(cells[len(cells)-1], "| ")
		}
	}
	return cells
}

// TestAssessmentForm: the page has the sections of the form of CNCF TAG Security, in its order.
func TestAssessmentForm(t *testing.T) {
	rest := content(t, "docs/self-assessment.md")
	for _, heading := range []string{
		"## Metadata", "### Security links", "## Overview", "### Background", "### Actors", "### Actions", "### Goals", "### Non-goals",
		"## Self-assessment use", "## Security functions and features", "## Project compliance",
		"## Secure development practices", "### Development pipeline", "### Communication channels", "### Ecosystem",
		"## Security issue resolution", "### Responsible disclosure", "### Incident response",
		"## Appendix", "### Known issues over time", "### OpenSSF best practices", "### Case studies", "### Related projects",
	} {
		_, after, found := strings.Cut(rest, "\n"+heading+"\n")
		if !found {
			t.Errorf("docs/self-assessment.md lacks %q, or has it in another place", heading)
			continue
		}
		rest = after
	}
}
