package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// newestMinor is the minor that tests use without a word about another one.
const newestMinor = "1.37"

// A feature is a row of the matrix of Kubernetes minors.
type feature struct {
	name string
	// how it is tested.
	how string
	// module is the path of a package below the module of the repository, tests what their whole
	// names match.
	pkg   string
	tests *regexp.Regexp
}

// readFeatures reads the list of features.
func readFeatures(file string) (all []feature, _ error) {
	t, err := readTable(file, "feature", "tested with", "package", "tests")
	if err != nil {
		return nil, err
	}
	for i, row := range t.rows {
		tests, err := regexp.Compile("^(" + row[3] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+2, err)
		}
		all = append(all, feature{name: row[0], how: row[1], pkg: row[2], tests: tests})
	}
	return all, nil
}

// versionNamed are subtests that are named after a version of Kubernetes, which they test.
var versionNamed = regexp.MustCompile(`^(Test\w+)/(1\.\d+)(\.\d+)?$`)

// count counts the outcomes of the tests of a feature, without subtests, for a minor. Those of a run count
// for the minor that it tests, and a subtest that is named after another version for that one.
func (f feature) count(outcomes map[string]string, tested, minor string) (passed, failed, skipped int) {
	for id, outcome := range outcomes {
		pkg, test, _ := strings.Cut(id, " ")
		of := tested
		if parts := versionNamed.FindStringSubmatch(test); parts != nil && parts[2] != tested {
			test, of = parts[1], parts[2]
		}
		if of != minor || !strings.HasSuffix(pkg, "/"+f.pkg) || !f.tests.MatchString(test) {
			continue
		}
		switch outcome {
		case "pass":
			passed++
		case "fail":
			failed++
		case "skip":
			skipped++
		}
	}
	return passed, failed, skipped
}

// matrix is the table of the features and minors, from what was recorded.
func (r *recorder) matrix() string {
	minors := append(slices.Sorted(slices.Values(olderMinors)), newestMinor)
	columns := append([]string{"feature", "tested with"}, minors...)
	var rows [][]string
	for _, f := range r.known {
		row := []string{f.name, f.how + ": `" + f.pkg + "`"}
		for _, minor := range minors {
			row = append(row, r.cell(f.name, minor))
		}
		rows = append(rows, row)
	}
	return markdown(columns, rows)
}

// cell is the last result of a feature on a minor.
func (r *recorder) cell(name, minor string) string {
	for _, row := range r.features.rows {
		if row[0] != name || row[1] != minor {
			continue
		}
		text := row[4] + " passed"
		if row[5] != "0" {
			text = "**" + row[5] + " failed**, " + text
		}
		if row[6] != "0" {
			text += ", " + row[6] + " skipped"
		}
		return text + " (" + row[2] + ", `" + row[3] + "`)"
	}
	return "not recorded"
}
