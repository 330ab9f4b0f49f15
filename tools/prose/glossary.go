package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A phrase is not used in texts.
type phrase struct {
	// Not is the phrase.
	Not string
	// Instead is what the row of the glossary says to write, or the term.
	Instead string
}

func (p phrase) message() string {
	return fmt.Sprintf("write %s (%s)", p.Instead, glossary)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// parse reads the tables of the glossary that have a column "not". What that column has
// in backquotes is refused; the column "write", or the term, says what to write instead.
func parse(page string) (phrases []phrase) {
	not, instead := -1, -1
	for line := range strings.Lines(page) {
		cells := cells(line)
		switch {
		case cells == nil:
			not = -1
		case not < 0:
			not, instead = columns(cells)
		case len(cells) > max(not, instead):
			for _, match := range quoted.FindAllStringSubmatch(cells[not], -1) {
				phrases = append(phrases, phrase{Not: match[1], Instead: plain(cells[instead])})
			}
		}
	}
	return phrases
}

// columns finds the columns by the header of a table.
func columns(header []string) (not, instead int) {
	not = -1
	for i, title := range header {
		switch title {
		case "not":
			not = i
		case "write", "term":
			instead = i
		}
	}
	return not, instead
}

// cells returns the cells of a row, or nil for a line that is none.
func cells(line string) (all []string) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}

// plain is Markdown without its signs of emphasis.
func plain(text string) string {
	return strings.NewReplacer("*", `"`, "`", "").Replace(text)
}

// writeStyle writes the configuration of vale, with one rule for each phrase. JSON is
// YAML, too.
func writeStyle(dir string, phrases []phrase) error {
	style := filepath.Join(dir, "styles", "glossary")
	errs := []error{os.MkdirAll(style, 0o755), os.WriteFile(filepath.Join(dir, "vale.ini"), []byte(
		"StylesPath = styles\nMinAlertLevel = error\n[*.{md,txt}]\nBasedOnStyles = glossary\n"), 0o644)}
	for i, p := range phrases {
		data, err := json.Marshal(map[string]any{
			"extends": "existence", "level": "error", "ignorecase": true,
			"message": "'%s': " + strings.ReplaceAll(p.message(), "%", "%%"),
			"tokens":  []string{strings.Join(strings.Fields(regexp.QuoteMeta(p.Not)), `\s+`)},
		})
		errs = append(errs, err, os.WriteFile(filepath.Join(style, fmt.Sprintf("phrase%02d.yml", i+1)), data, 0o644))
	}
	return errors.Join(errs...)
}
