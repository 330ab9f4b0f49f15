package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Verdict is what an API server says to the creation of an object.
type Verdict string

// The verdicts. Strict ones are refused by kubectl, which asks the server to be
// strict; a client that does not has the unknown fields dropped.
const (
	Valid         Verdict = "valid"
	StrictWarning Verdict = "strict-warning"
	Invalid       Verdict = "invalid"
	StrictInvalid Verdict = "strict+invalid"
	DecodeFailed  Verdict = "decode-failed"
)

// verdict checks a document as the API server alone would.
func (s *Site) verdict(document *manifest.Document, now time.Time) Verdict {
	object, problems := manifest.Decode(document)
	version, known := document.Version()
	if object == nil || !known || !exists(version, s.minor()) {
		return DecodeFailed
	}
	data, err := json.Marshal(object)
	if err != nil {
		return DecodeFailed
	}
	errs, err := s.reviewer.Server(request(object, "", data, now))
	switch {
	case err != nil:
		return DecodeFailed
	case len(errs) > 0 && len(problems) > 0:
		return StrictInvalid
	case len(errs) > 0:
		return Invalid
	case len(problems) > 0:
		return StrictWarning
	default:
		return Valid
	}
}

// A verdictRow is the verdict on one object in the form for programs.
type verdictRow struct {
	// File is relative to the working directory. Document counts the objects of
	// resource.k8s.io in the file from 1.
	File       string  `json:"file"`
	Document   int     `json:"document"`
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Name       string  `json:"name"`
	Verdict    Verdict `json:"verdict"`
}

// verdictPrinter writes verdicts as a list, or line by line.
type verdictPrinter struct {
	out  io.Writer
	json bool
	here string
	rows []verdictRow
}

// NewVerdictPrinter returns the printer of verdicts for an output, text or json. here
// is the working directory, to which the names of files are made relative.
func NewVerdictPrinter(output string, out io.Writer, here string) (Printer, error) {
	if output != "text" && output != "json" {
		return nil, fmt.Errorf("--output %q: verdicts are printed as text or json", output)
	}
	return &verdictPrinter{out: out, json: output == "json", here: here, rows: []verdictRow{}}, nil
}

func (p *verdictPrinter) Print(r Result) error {
	if r.Ours == 0 {
		return nil
	}
	if !p.json {
		_, err := fmt.Fprintln(p.out, printable.Line(fmt.Sprintf("%s:%d: %s %s: %s", r.File, r.Line, r.Kind, r.Name, r.Verdict)))
		return err
	}
	p.rows = append(p.rows, verdictRow{relative(p.here, r.File), r.Ours, r.APIVersion, r.Kind, r.Name, r.Verdict})
	return nil
}

func (p *verdictPrinter) Close() error {
	if !p.json {
		return nil
	}
	return encode(p.out, p.rows)
}

// droppedList matches the path of a list in an attribute.
var droppedList = regexp.MustCompile(`^(spec\.devices\[.*\]\.attributes)\.(.+)\.(ints|bools|strings|versions)$`)

// attributeValue is the rule that an attribute has exactly one value.
const attributeValue = "attribute-value"

// droppedLists puts what follows from one cause into one finding: an API server that drops
// the lists of attributes refuses the attributes, which have no value left.
func (j *judgement) droppedLists() {
	var first *Diagnostic
	refused := map[string]Diagnostic{}
	for _, r := range j.reports {
		if r.Rule == attributeValue {
			refused[r.Path] = r
		}
	}
	consequences := map[Diagnostic]bool{}
	attributes := 0
	for i, dropped := range j.reports {
		match := droppedList.FindStringSubmatch(dropped.Path)
		if dropped.Rule != rulebook.FieldDropped || match == nil {
			continue
		}
		consequence, ok := refused[match[1]+"["+match[2]+"]"]
		if !ok {
			continue
		}
		consequences[dropped], consequences[consequence] = true, true
		attributes++
		if first == nil {
			first = &j.reports[i]
		}
	}
	if first == nil {
		return
	}
	cause, _, _ := strings.Cut(first.Message, ": ")
	one := *first
	one.Rule, one.Severity = attributeValue, validate.Error
	one.Message = fmt.Sprintf("the list is %s, and an attribute without a value is refused", cause)
	if attributes > 1 {
		one.Message += "; the same holds for " + plural.Of(attributes-1, "other attribute")
	}
	j.reports = append(slices.DeleteFunc(j.reports, func(r Diagnostic) bool { return consequences[r] }), one)
}
