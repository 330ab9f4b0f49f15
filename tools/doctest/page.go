package doctest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"
)

// A Page is a Markdown file.
type Page struct {
	Name   string
	Blocks []Block
	// Headings are the anchors of the page, as GitHub makes them.
	Headings []string
	// Prose is the page without its fenced blocks.
	Prose string
}

// A Block is a fenced block of a page.
type Block struct {
	// Language is the first word of the info string.
	Language string
	// Options are the words after it, key=value.
	Options map[string]string
	Text    string
	// Line is where the text begins, counted from 1.
	Line int
}

// Read reads the page in the file of that name.
func Read(name string) (Page, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Page{}, err
	}
	page, err := Parse(string(data))
	page.Name = name
	if err != nil {
		return page, fmt.Errorf("%s: %w", name, err)
	}
	return page, nil
}

// Parse reads a page. A fence without an end is an error, since everything after it
// would be taken for text that is shown.
func Parse(text string) (Page, error) {
	var page Page
	var prose strings.Builder
	var block *Block
	seen := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && block == nil:
			block = newBlock(strings.TrimPrefix(strings.TrimSpace(line), "```"), number+1)
		case fence:
			page.Blocks = append(page.Blocks, *block)
			block = nil
		case block != nil:
			block.Text += line
		default:
			prose.WriteString(line)
			if title, is := heading(line); is {
				page.Headings = append(page.Headings, anchor(title, seen))
			}
		}
	}
	page.Prose = prose.String()
	if block != nil {
		return page, fmt.Errorf("line %d: the fenced block has no end", block.Line-1)
	}
	return page, nil
}

func newBlock(info string, line int) *Block {
	b := &Block{Line: line, Options: map[string]string{}}
	for i, word := range strings.Fields(info) {
		if key, value, is := strings.Cut(word, "="); is {
			b.Options[key] = value
		} else if i == 0 {
			b.Language = word
		}
	}
	return b
}

func heading(line string) (title string, is bool) {
	level := len(line) - len(strings.TrimLeft(line, "#"))
	if level == 0 || level > 6 || !strings.HasPrefix(line[level:], " ") {
		return "", false
	}
	return strings.TrimSpace(line[level:]), true
}

// anchor is the anchor that GitHub makes of a heading: lower case, without
// punctuation, blanks as hyphens, repetitions numbered.
func anchor(title string, seen map[string]int) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
	n := seen[slug]
	seen[slug]++
	if n > 0 {
		slug = fmt.Sprintf("%s-%d", slug, n)
	}
	return slug
}

var (
	codeSpan = regexp.MustCompile("`[^`\n]+`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// Code returns the code spans of the prose.
func (p Page) Code() (spans []string) {
	for _, span := range codeSpan.FindAllString(p.Prose, -1) {
		spans = append(spans, strings.Trim(span, "`"))
	}
	return spans
}

// Links returns the targets of the links of the prose.
func (p Page) Links() (targets []string) {
	for _, match := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.Prose, ""), -1) {
		targets = append(targets, match[1])
	}
	return targets
}

// A Command is a line of a console block and what it prints.
type Command struct {
	Line   string
	Output string
	// At is its line in the page.
	At int
}

// Commands returns the commands of a console block.
func (b Block) Commands() (commands []Command) {
	at := b.Line
	for line := range strings.Lines(b.Text) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands = append(commands, Command{Line: strings.TrimSpace(command), At: at})
		} else if len(commands) > 0 {
			commands[len(commands)-1].Output += line
		}
		at++
	}
	return commands
}
