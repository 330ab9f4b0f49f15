package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/text/natural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Result is what an audit has found. It has no times and is in one order, so that two
// of the same objects are the same.
type Result struct {
	// Objects are the numbers of the objects that were checked, by kind.
	Objects map[string]int `json:"objects"`
	// Codes are in the order of their names, and so are their namespaces.
	Codes []CodeSummary `json:"codes"`
	// Findings are in the order of codes, namespaces, kinds, names and paths.
	Findings []Finding `json:"findings"`
	// Errors are about objects that policies could not evaluate.
	Errors []string `json:"errors,omitempty"`
}

// A CodeSummary is how many objects would be refused because of a policy or rule.
type CodeSummary struct {
	Code string `json:"code"`
	// Today are the modes that it has where the objects are.
	Today      []policy.Mode      `json:"today"`
	Objects    int                `json:"objects"`
	Namespaces []NamespaceSummary `json:"namespaces"`
}

// A NamespaceSummary is how many of the objects are in a namespace; the empty name stands
// for objects without one.
type NamespaceSummary struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
}

// Make puts together what was found of objects, of which there are so many of each kind.
func Make(objects map[string]int, findings []Finding) Result {
	findings = slices.Clone(findings)
	slices.SortFunc(findings, compare)
	r := Result{Objects: objects, Codes: []CodeSummary{}, Findings: append([]Finding{}, slices.Compact(findings)...)}
	type object struct{ kind, namespace, name string }
	for start := 0; start < len(r.Findings); {
		code, objects, modes := r.Findings[start].Code, map[object]bool{}, map[policy.Mode]bool{}
		for ; start < len(r.Findings) && r.Findings[start].Code == code; start++ {
			f := r.Findings[start]
			objects[object{f.Kind, f.Namespace, f.Name}], modes[f.Today] = true, true
		}
		namespaces := map[string]int{}
		for o := range objects {
			namespaces[o.namespace]++
		}
		summary := CodeSummary{Code: code, Today: slices.Sorted(maps.Keys(modes)), Objects: len(objects)}
		for _, name := range slices.Sorted(maps.Keys(namespaces)) {
			summary.Namespaces = append(summary.Namespaces, NamespaceSummary{name, namespaces[name]})
		}
		r.Codes = append(r.Codes, summary)
	}
	return r
}

func compare(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
		comparePaths(a.Path, b.Path), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Today, b.Today))
}

// comparePaths puts findings without a place last: such is the number of those that are not
// listed.
func comparePaths(a, b string) int {
	if a == "" || b == "" {
		return -cmp.Compare(len(a), len(b))
	}
	return natural.Compare(a, b)
}

// Outputs are the forms of a report that only this package writes, and json.
func Outputs() []string { return []string{"text", "json", "sarif"} }

// Write writes the report in one of Outputs.
func (r Result) Write(output string, out io.Writer, o lint.Options) error {
	switch output {
	case "text":
		return r.text(out)
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	case "sarif":
		return r.sarif(out, o)
	}
	return fmt.Errorf("--output %q: must be text, json or sarif", output)
}

func (r Result) text(out io.Writer) error {
	w := bufio.NewWriter(out)
	next := 0
	for _, code := range r.Codes {
		var modes []string
		for _, mode := range code.Today {
			modes = append(modes, string(mode))
		}
		printable.Printf(w, "%s (today %s): %s\n", code.Code, strings.Join(modes, ", "), code.counts())
		start := next
		for next < len(r.Findings) && r.Findings[next].Code == code.Code {
			next++
		}
		lines(w, r.Findings[start:next])
	}
	for _, err := range r.Errors {
		printable.Printf(w, "error: %s\n", err)
	}
	printable.Printf(w, "%s\n", r.summary())
	return w.Flush()
}

// lines writes a line for each thing that is wrong with an object, however often it is.
func lines(w io.Writer, findings []Finding) {
	type what struct{ kind, namespace, name, message string }
	var order []Finding
	more := map[what]int{}
	of := func(f Finding) what { return what{f.Kind, f.Namespace, f.Name, f.Message} }
	for _, f := range findings {
		if more[of(f)]++; more[of(f)] == 1 {
			order = append(order, f)
		}
	}
	for _, f := range order {
		others := ""
		if n := more[of(f)] - 1; n > 0 {
			others = fmt.Sprintf(" (and at %s)", counted(n, "more place"))
		}
		printable.Printf(w, "  %s%s\n", f, others)
	}
}

// counts says how many objects are refused, and where.
func (c CodeSummary) counts() string {
	var where []string
	for _, n := range c.Namespaces {
		name := n.Name
		if name == "" {
			name = "no namespace"
		}
		where = append(where, fmt.Sprintf("%s %d", name, n.Objects))
	}
	return fmt.Sprintf("would refuse %s (%s)", counted(c.Objects, "object"), strings.Join(where, ", "))
}

func (r Result) summary() string {
	all := 0
	for _, n := range r.Objects {
		all += n
	}
	if len(r.Findings) == 0 {
		return fmt.Sprintf("%s checked, none would be refused", counted(all, "object"))
	}
	refused := map[string]bool{}
	for _, f := range r.Findings {
		refused[f.Kind+" "+fullName(f.Namespace, f.Name)] = true
	}
	return fmt.Sprintf("%s checked, %d would be refused", counted(all, "object"), len(refused))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// String is the finding without its code.
func (f Finding) String() string {
	made := ""
	if f.Generated {
		made = " (from a template)"
	}
	return strings.Join(slices.DeleteFunc([]string{f.Kind + " " + fullName(f.Namespace, f.Name) + made, f.Path, f.Message},
		func(s string) bool { return s == "" }), ": ")
}

// sarif has the place of an object in the API for that of a file.
func (r Result) sarif(out io.Writer, o lint.Options) error {
	printer, err := lint.NewPrinter("sarif", out, o)
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: f.Kind})
		place := resource.Resource + "/" + f.Name
		if f.Namespace != "" {
			place = "namespaces/" + f.Namespace + "/" + place
		}
		err := printer.Print(lint.Result{Reports: []lint.Diagnostic{{File: place, Line: 1, Column: 1, Kind: f.Kind, Name: fullName(f.Namespace, f.Name),
			Rule: f.Code, Severity: validate.Error, Path: f.Path, Message: f.Message}}})
		if err != nil {
			return err
		}
	}
	return printer.Close()
}
