package helmchart

import (
	"fmt"
	"strings"
)

// A Place finds lines of a rendered text in its template.
type Place struct {
	rendered []string
	// lines has the number of each line that the template has exactly once, and 0 for
	// those that it has several times.
	lines map[string]int
	// patterns are the lines with an action and other text.
	patterns []pattern
}

// A pattern is a line of a template: what is before its first action, and what is after the
// last one.
type pattern struct {
	before, after string
	line          int
}

// Place returns nil for a file that is not a template: its lines are those of the text.
func (f File) Place() *Place {
	if f.source == "" {
		return nil
	}
	p := &Place{rendered: strings.Split(f.Text, "\n"), lines: map[string]int{}}
	for i, line := range strings.Split(f.source, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if before, rest, found := strings.Cut(line, "{{"); found && strings.TrimSpace(before) != "" {
			after := ""
			if end := strings.LastIndex(rest, "}}"); end >= 0 {
				after = rest[end+len("}}"):]
			}
			p.patterns = append(p.patterns, pattern{before, after, i + 1})
		}
		if _, twice := p.lines[line]; twice {
			p.lines[line] = 0
			continue
		}
		p.lines[line] = i + 1
	}
	return p
}

// Find returns the line and column of the template for those of the rendered text. A line
// that the template has exactly once is that line. For another one it returns the only line
// with actions that fits, or the nearest line above of which one of both is true, or the
// first line; and a note with the line of the rendered text.
func (p *Place) Find(line, column int) (row, col int, note string) {
	if line < 1 || line > len(p.rendered) {
		return 1, 1, ""
	}
	text := p.text(line)
	if at := p.literal(text); at > 0 {
		return at, column, ""
	}
	note = fmt.Sprintf(" (line %d of the rendered text: %.80q)", line, strings.TrimSpace(text))
	if at := p.fitting(text); at.line > 0 {
		return at.line, min(column, len([]rune(at.before))+1), note
	}
	for above := line - 1; above > 0; above-- {
		if at := p.literal(p.text(above)); at > 0 {
			return at, 1, note
		}
		if at := p.fitting(p.text(above)); at.line > 0 {
			return at.line, 1, note
		}
	}
	return 1, 1, note
}

// text is a line of the rendered text.
func (p *Place) text(line int) string { return strings.TrimRight(p.rendered[line-1], " \t\r") }

// literal returns the only line of the template that is text, 0 if there is not one.
func (p *Place) literal(text string) int {
	if text == "" {
		return 0
	}
	return p.lines[text]
}

// fitting returns the only line with an action from which text may come.
func (p *Place) fitting(text string) (found pattern) {
	for _, candidate := range p.patterns {
		if len(text) < len(candidate.before)+len(candidate.after) ||
			!strings.HasPrefix(text, candidate.before) || !strings.HasSuffix(text, candidate.after) {
			continue
		}
		if found.line > 0 {
			return pattern{}
		}
		found = candidate
	}
	return found
}
