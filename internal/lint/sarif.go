package lint

import (
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	sarifRoot    = "%SRCROOT%"
)

// The part of SARIF that lint writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string    `json:"id"`
		Short   sarifText `json:"shortDescription"`
		Full    sarifText `json:"fullDescription"`
		Help    sarifText `json:"help"`
		Default struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Index     int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact sarifArtifact `json:"artifactLocation"`
			Region   sarifRegion   `json:"region"`
		} `json:"physicalLocation"`
		Logical []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// sarifPrinter writes a log for code scanning services.
type sarifPrinter struct {
	out           io.Writer
	options       Options
	rules         []sarifRule
	results       []sarifResult
	notifications []sarifNotification
}

func (p *sarifPrinter) Print(r Result) error {
	if r.Err != nil {
		p.notifications = append(p.notifications, sarifNotification{"error", sarifText{Text: r.Err.Error()}})
	}
	for _, report := range r.Reports {
		p.results = append(p.results, sarifResult{
			Rule: report.Rule, Index: p.rule(report.Rule), Level: sarifLevel(report.Severity),
			Message: sarifText{Text: report.Text()}, Locations: []sarifLocation{p.location(report)},
		})
	}
	return nil
}

// rule returns the index of a rule among those that were found.
func (p *sarifPrinter) rule(id string) int {
	if at := slices.IndexFunc(p.rules, func(r sarifRule) bool { return r.ID == id }); at >= 0 {
		return at
	}
	entry, err := p.options.Book.Find(id)
	if err != nil {
		entry = rulebook.Entry{ID: id, Doc: id}
	}
	rule := sarifRule{ID: id, Short: sarifText{Text: entry.Summary()}, Full: sarifText{Text: entry.Doc},
		Help: sarifText{Text: entry.Doc, Markdown: entry.Markdown()}}
	rule.Default.Level = "error"
	if strings.Contains(entry.What, "(warning)") || id == rulebook.DeprecatedVersion || id == rulebook.FieldDropped {
		rule.Default.Level = "warning"
	}
	p.rules = append(p.rules, rule)
	return len(p.rules) - 1
}

func (p *sarifPrinter) location(r Diagnostic) (l sarifLocation) {
	name := relative(p.options.Here, r.File)
	l.Physical.Artifact = sarifArtifact{(&url.URL{Path: name}).String(), sarifRoot}
	if filepath.IsAbs(name) || strings.HasPrefix(name, "../") {
		l.Physical.Artifact.Base = ""
	}
	l.Physical.Region = sarifRegion{r.Line, r.Column}
	object := strings.TrimSpace(r.Kind + " " + r.Name)
	if object != "" {
		l.Logical = []sarifLogical{{strings.TrimSuffix(object+": "+r.Path, ": "), "member"}}
	}
	return l
}

func sarifLevel(severity validate.Severity) string {
	if severity == validate.Error {
		return "error"
	}
	return "warning"
}

func (p *sarifPrinter) Close() error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{"dra-steward", p.options.Version, append([]sarifRule{}, p.rules...)}},
		Invocations: []sarifInvocation{{len(p.notifications) == 0, p.notifications}},
		ColumnKind:  "unicodeCodePoints",
		Results:     append([]sarifResult{}, p.results...),
	}
	return encode(p.out, sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}
