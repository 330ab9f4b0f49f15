package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest"
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
		_, err := fmt.Fprintf(p.out, "%s:%d: %s %s: %s\n", r.File, r.Line, r.Kind, r.Name, r.Verdict)
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
