package lint

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
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
		Name     string      `json:"name"`
		FullName string      `json:"fullName,omitempty"`
		Version  string      `json:"version,omitempty"`
		Rules    []sarifRule `json:"rules"`
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

// fullName names the commit, too; it is empty if that is not known.
func (p *sarifPrinter) fullName() string {
	if p.options.Commit == "" {
		return ""
	}
	return fmt.Sprintf("dra-steward %s (commit %s)", cmp.Or(p.options.Version, "of unknown version"), p.options.Commit)
}

func (p *sarifPrinter) Close() error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{"dra-steward", p.fullName(), p.options.Version, append([]sarifRule{}, p.rules...)}},
		Invocations: []sarifInvocation{{len(p.notifications) == 0, p.notifications}},
		ColumnKind:  "unicodeCodePoints",
		Results:     append([]sarifResult{}, p.results...),
	}
	return encode(p.out, sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}

// junitPrinter writes a test suite per file with a test case per object.
type junitPrinter struct {
	out     io.Writer
	options Options
	suites  []junitSuite
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name     string         `xml:"name,attr"`
	Class    string         `xml:"classname,attr"`
	File     string         `xml:"file,attr"`
	Line     int            `xml:"line,attr,omitempty"`
	Failures []junitFailure `xml:"failure"`
	Error    *junitFailure  `xml:"error"`
	// Out holds what is too light to fail the test.
	Out string `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (p *junitPrinter) Print(r Result) error {
	if r.Skipped {
		return nil
	}
	file := relative(p.options.Here, r.File)
	if len(p.suites) == 0 || p.suites[len(p.suites)-1].Name != file {
		p.suites = append(p.suites, junitSuite{Name: file})
	}
	suite := &p.suites[len(p.suites)-1]
	test := p.test(r, file)
	suite.Tests++
	if len(test.Failures) > 0 {
		suite.Failures++
	}
	if test.Error != nil {
		suite.Errors++
	}
	suite.Cases = append(suite.Cases, test)
	return nil
}

func (p *junitPrinter) test(r Result, file string) junitCase {
	test := junitCase{Name: file, Class: file, File: file, Line: r.Line}
	if r.Err != nil {
		test.Error = &junitFailure{Type: "unreadable", Message: r.Err.Error()}
		return test
	}
	name := strings.TrimSpace(r.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
	test.Name = strings.TrimSpace(fmt.Sprintf("%s (document %d)", name, r.Document))
	var light []string
	for _, report := range r.Reports {
		if report.Severity > p.options.FailOn {
			light = append(light, report.String())
			continue
		}
		test.Failures = append(test.Failures, junitFailure{Type: report.Rule, Message: report.Text(), Text: report.String()})
	}
	test.Out = strings.Join(light, "\n")
	return test
}

func (p *junitPrinter) Close() error {
	all := junitSuites{Name: "dra-steward lint", Suites: p.suites}
	for _, suite := range p.suites {
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s%s\n", xml.Header, text)
	return err
}

// annotation is a report as a workflow command of GitHub Actions, which shows it at the
// line of the change.
func annotation(r Diagnostic, here string) string {
	level := "warning"
	if r.Severity == validate.Error {
		level = "error"
	}
	return fmt.Sprintf("::%s file=%s,line=%d,col=%d,title=%s::%s", level, property(relative(here, r.File)), r.Line, r.Column,
		property("dra-steward: "+r.Rule), message(r.Text()))
}

// message escapes the text of a workflow command.
func message(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// property escapes the value of a property of a workflow command.
func property(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(message(text))
}
