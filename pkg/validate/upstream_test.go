package validate

import (
	"bufio"
	cmpkg "cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// record is a row of upstream's tables: what its hand-written validation of a version said
// of an object, with one of the gate sets.
type record struct {
	Func        string
	Object, Old json.RawMessage
	Errors      []struct{ Field, Type string }

	place string // file and line
	minor int    // 37 for 1.37.0
}

// unlikeUpstream are the errors that only one of the function and the API server as a whole
// returns, with the reason, for rows that have a text.
var unlikeUpstream = []struct {
	errors *regexp.Regexp
	row    string
	reason string
}{
	{regexp.MustCompile(`^FieldValueRequired metadata\.namespace$`), "", "a namespaced object gets the namespace of the request"},
	{regexp.MustCompile(`^FieldValueNotSupported .*\.allocationMode$`), "", "the allocation mode is defaulted"},
	{regexp.MustCompile(`^FieldValueTooLong .*\.(data|parameters)$`), "", "what made the value too long is space that the recording has lost"},
	{regexp.MustCompile(`^FieldValueForbidden status\.reservedFor$`), `"deletionTimestamp"`, "a status update cannot set deletionTimestamp"},
	{regexp.MustCompile(`^FieldValueInvalid .*\.nodeAllocatableResources\[.*\]\.mapping$`), "", "declarative validation reports the mapping too"},
	{regexp.MustCompile(`^FieldValueNotSupported .*\.taints\[\d+\]\.effect$`), `"old"`, "declarative validation does not skip the unchanged taint"},
}

// unlike reports whether an error of one side is known to differ.
func unlike(row, line string) bool {
	for _, known := range unlikeUpstream {
		if known.errors.MatchString(line) && strings.Contains(row, known.row) {
			return true
		}
	}
	return false
}

// TestUpstreamTables holds the rules against the tables of upstream's own tests, whatever
// rows a file of that format has.
func TestUpstreamTables(t *testing.T) {
	compared := 0
	for _, r := range records(t) {
		theirs := []string{}
		for _, err := range r.Errors {
			theirs = append(theirs, err.Type+" "+withNames(t, r.Object, err.Field))
		}
		var diffs []string
		for _, gates := range gateSets() {
			gates.Profile.Minor = r.minor
			ours := verdict(t, r, gates)
			if diff := cmp.Diff(without(r, theirs, ours), without(r, ours, theirs)); diff != "" {
				diffs = append(diffs, diff)
			}
		}
		// A row does not say which of the gate sets its test had: upstream's tests switch gates
		// on for a case where they need them. One of the sets has to agree.
		if len(diffs) == len(gateSets()) {
			t.Errorf("%s, %s: -upstream +ours:\n%s", r.place, r.Func, strings.Join(diffs, "\n"))
		}
		compared++
	}
	t.Logf("%d rows compared", compared)
}

// gateSets are the gates with which upstream's tests run: all, and all but the one that
// changes what the others mean.
func gateSets() (sets []apiserver.Conditions) {
	for _, fractional := range []bool{true, false} {
		gates := map[apiserver.Gate]bool{}
		for _, gate := range apiserver.Gates() {
			gates[gate] = fractional || gate != "DRAFractionalCapacityRange"
		}
		sets = append(sets, apiserver.Conditions{Profile: apiserver.Profile{Gates: gates}})
	}
	return sets
}

// without returns the lines that other has too, or that are not known to differ.
func without(r record, lines, other []string) []string {
	row := string(r.Object)
	if r.Old != nil {
		row += `"old"`
	}
	return set(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return unlike(row, line) && !slices.Contains(other, line)
	}))
}

// verdict is what the rules say of a row.
func verdict(t *testing.T, r record, c apiserver.Conditions) []string {
	t.Helper()
	switch name := strings.TrimPrefix(r.Func, "Validate"); {
	case name == "ResourceClaimStatusUpdate":
		return say(t, r, ResourceClaimStatus(), c)
	case strings.HasPrefix(name, "ResourceClaimTemplate"):
		return say(t, r, ResourceClaimTemplate(), c)
	case strings.HasPrefix(name, "ResourceClaim"):
		return say(t, r, ResourceClaim(), c)
	case strings.HasPrefix(name, "DeviceClass"):
		return say(t, r, DeviceClass(), c)
	case strings.HasPrefix(name, "ResourceSlice"):
		return say(t, r, ResourceSlice(), c)
	case strings.HasPrefix(name, "DeviceTaintRule"):
		return say(t, r, DeviceTaintRule(), c)
	}
	t.Errorf("no rules for %s", r.Func)
	return nil
}

// records reads the tables, and skips the test where they are not.
func records(t *testing.T) (rows []record) {
	files, err := filepath.Glob(filepath.Join(corpus.Folder(t), "upstream-*-tables.jsonl"))
	if len(files) == 0 || err != nil {
		t.Skip("the folder of public manifests has no tables of verdicts recorded from upstream (upstream-*-tables.jsonl)")
	}
	for _, file := range files {
		rows = append(rows, recordsOf(t, file)...)
	}
	return rows
}

// recordsOf reads one file.
func recordsOf(t *testing.T, name string) (rows []record) {
	t.Helper()
	var minor int
	if _, err := fmt.Sscanf(filepath.Base(name), "upstream-1.%d.", &minor); err != nil {
		t.Fatalf("%s: %v; want upstream-VERSION-tables.jsonl", name, err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		r := record{place: fmt.Sprintf("%s:%d", filepath.Base(name), n), minor: minor}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", r.place, err)
		}
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// say returns type and place of the errors of those rules of a table that the API server
// has.
func say[T any](t *testing.T, r record, rules Table[*T], c apiserver.Conditions) (lines []string) {
	t.Helper()
	var obj, old T
	if err := json.Unmarshal(r.Object, &obj); err != nil {
		t.Fatal(err)
	}
	var errs field.ErrorList
	if r.Old == nil {
		errs = rules.Upstream().Validate(&obj, c)
	} else {
		if err := json.Unmarshal(r.Old, &old); err != nil {
			t.Fatal(err)
		}
		errs = rules.Upstream().ValidateUpdate(&old, &obj, c)
	}
	for _, err := range errs {
		lines = append(lines, string(err.Type)+" "+err.Field)
	}
	return lines
}

func set(lines []string) []string {
	slices.Sort(lines)
	return slices.Compact(append([]string{}, lines...))
}

// item is a list and the index of one of its items in a place.
var item = regexp.MustCompile(`\b(requests|firstAvailable|devices|sharedCounters)\[(\d+)\]`)

// withNames replaces indexes in a place by names, as the rules do: of the first request,
// alternative, device or counter set with a name that is not empty.
func withNames(t *testing.T, object json.RawMessage, place string) string {
	t.Helper()
	if strings.HasPrefix(place, "status.") {
		return place
	}
	var at any
	if err := json.Unmarshal(object, &at); err != nil {
		t.Fatal(err)
	}
	named, rest := "", place
	for {
		found := item.FindStringSubmatchIndex(rest)
		if found == nil {
			return named + rest
		}
		index, _ := strconv.Atoi(rest[found[4]:found[5]])
		for _, key := range strings.FieldsFunc(rest[:found[3]], func(r rune) bool { return r == '.' }) {
			fields, _ := at.(map[string]any)
			at = fields[key]
		}
		items, _ := at.([]any)
		if index >= len(items) {
			return named + rest
		}
		named += rest[:found[3]] + "[" + nameOf(items, index) + "]"
		at, rest = items[index], rest[found[1]:]
	}
}

// nameOf returns the name of an item, or its index if an item before has the same one.
func nameOf(items []any, index int) string {
	name := func(i int) string {
		fields, _ := items[i].(map[string]any)
		name, _ := fields["name"].(string)
		return name
	}
	for i := range index {
		if name(i) == name(index) {
			return strconv.Itoa(index)
		}
	}
	return cmpkg.Or(name(index), strconv.Itoa(index))
}
