package lint

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

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
