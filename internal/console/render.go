package console

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// A page is what a template gets.
type page struct {
	// Template has the content, Title is that of the window.
	Template, Title string
	Data            any

	// Cluster names what is shown.
	Cluster  string
	Fleet    *fleet.Fleet
	Revision uint64
	// At is when the fleet was read, Stale why it is not current since Since.
	At, Since, Now time.Time
	Stale          string
	// Live is false for a page that is a file.
	Live bool
	// Form is the token of its forms; a page without one has no forms that write.
	Form string
}

// flagged is a row and whether it has the column of unknown devices.
type flagged struct {
	Row  capacityRow
	Flag bool
}

// timed is data and the time of the page.
type timed struct {
	Now  time.Time
	Data any
}

// A renderer writes pages.
type renderer struct {
	templates *template.Template
	links     links
}

func newRenderer(l links) (*renderer, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"text": plain, "shell": shell, "age": age, "lasting": lasting, "stamp": stamp, "comma": comma, "lower": strings.ToLower, "percent": percent, "fit": fitText, "add": func(a, b int) int { return a + b },
		"device": l.device, "claim": l.claim, "pod": l.pod, "drain": l.drain, "to": l.to, "asset": l.asset, "search": l.search,
		"nav": l.nav, "pair": func(row capacityRow, flag bool) flagged { return flagged{row, flag} }, "named": func(l link, text string) link { return link{l.URL, text} },
		"at":        func(now time.Time, data any) timed { return timed{now, data} },
		"parameter": parameterText, "effects": effects, "actions": func(form, target string) actions { return actions{form, target} }, "steer": func(form string, row drainRow) steering { return steering{form, row} }, "long": long,
		"row": func(f *fleet.Fleet, i int) *fleet.Device { return &f.Devices[i] },
	}).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return &renderer{templates: t, links: l}, nil
}

// write renders a page completely before it writes any of it.
func (r *renderer) write(w io.Writer, p page) error {
	var out bytes.Buffer
	if err := r.templates.ExecuteTemplate(&out, "page", p); err != nil {
		return fmt.Errorf("page %s: %w", p.Template, err)
	}
	_, err := out.WriteTo(w)
	return err
}

// maxText is how many characters of a text of the cluster a page shows.
const maxText = 512

// maxCommand is how many characters of a command a page shows: half a command is wrong.
const maxCommand = 64 << 10

// maxWords is how many characters of an answer of the API server a page shows.
const maxWords = 8 << 10

// long returns text as plain does, and cuts it later.
func long(value any) string { return oneLine(fmt.Sprint(value), maxWords) }

// actions are what a form about a target needs; without a target it asks for one.
type actions struct{ Form, Target string }

// steering is what the forms about a drain need.
type steering struct {
	Form string
	Row  drainRow
}

// shell returns a command as plain returns text, but not cut.
func shell(line string) string {
	if utf8.RuneCountInString(line) > maxCommand {
		return "# the command is too long for a page: run dra-steward in a terminal"
	}
	return oneLine(line, maxCommand)
}

// plain returns text of the cluster in one line that people can trust: bounded, and with control
// characters and those that turn the direction of text written as \u202e.
func plain(value any) string { return oneLine(fmt.Sprint(value), maxText) }

func oneLine(text string, most int) string {
	var out strings.Builder
	n := 0
	for i, r := range text {
		if n == most {
			fmt.Fprintf(&out, "… (%s characters)", comma(n+utf8.RuneCountInString(text[i:])))
			break
		}
		n++
		switch {
		case r == '\n' || r == '\t':
			out.WriteByte(' ')
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			fmt.Fprintf(&out, "\\u%04x", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// age is how long ago a time was, in its largest unit.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	if d := now.Sub(then); d >= 0 {
		return lasting(now, then) + " ago"
	}
	return "in " + lasting(then, now)
}

// lasting is how long it is from then to now, in its largest unit.
func lasting(now, then time.Time) string {
	switch d := now.Sub(then); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// stamp is a time in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// comma writes a number with commas.
func comma(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// percent is a part of a whole, from 0 to 100.
func percent(part, whole int) int {
	if whole == 0 {
		return 0
	}
	return part * 100 / whole
}

// fitText is how many claims of a size fit.
func fitText(f capacity.Fit) string {
	switch {
	case f.Unknown:
		return "?"
	case f.Unlimited:
		return "no limit"
	case f.Exact:
		return comma(f.Claims)
	}
	return "≤" + comma(f.Claims)
}
