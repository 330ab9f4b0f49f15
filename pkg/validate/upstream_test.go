package validate

import (
	"bufio"
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
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// record is a row of upstream's tables: what its hand-written validation of 1.37 said
// of an object, with all feature gates on.
type record struct {
	Func        string
	Object, Old json.RawMessage
	Errors      []struct{ Field, Type string }
}

// unlikeUpstream are the rows for which the API server as a whole says something else
// than the function, with the reason. Lines count from 1.
var unlikeUpstream = map[int]string{
	45:  "a namespaced object gets the namespace of the request",
	54:  "the allocation mode is defaulted",
	72:  "what made the data too long is space that the recording has lost",
	83:  "what made the data too long is space that the recording has lost",
	88:  "what made the parameters too long is space that the recording has lost",
	102: "a status update cannot set deletionTimestamp",
	121: "a namespaced object gets the namespace of the request",
}

// TestUpstreamTables holds the rules for claims, templates and classes against the
// tables of upstream's own tests.
func TestUpstreamTables(t *testing.T) {
	all := apiserver.Conditions{Profile: apiserver.Profile{Gates: map[apiserver.Gate]bool{}}}
	for _, gate := range apiserver.Gates() {
		all.Profile.Gates[gate] = true
	}
	compared := 0
	for line, r := range records(t) {
		var ours []string
		switch name := strings.TrimPrefix(r.Func, "Validate"); {
		case name == "ResourceClaimStatusUpdate":
			ours = say(t, r, ResourceClaimStatus(), all)
		case strings.HasPrefix(name, "ResourceClaimTemplate"):
			ours = say(t, r, ResourceClaimTemplate(), all)
		case strings.HasPrefix(name, "ResourceClaim"):
			ours = say(t, r, ResourceClaim(), all)
		case strings.HasPrefix(name, "DeviceClass"):
			ours = say(t, r, DeviceClass(), all)
		default:
			continue
		}
		compared++
		theirs := []string{}
		for _, err := range r.Errors {
			theirs = append(theirs, err.Type+" "+withNames(r.Object, err.Field))
		}
		diff := cmp.Diff(set(theirs), set(ours))
		switch reason, known := unlikeUpstream[line+1]; {
		case diff != "" && !known:
			t.Errorf("row %d, %s: -upstream +ours:\n%s", line+1, r.Func, diff)
		case diff == "" && known:
			t.Errorf("row %d, %s is like upstream, though %s", line+1, r.Func, reason)
		}
	}
	t.Logf("%d rows compared, %d of them known to differ", compared, len(unlikeUpstream))
}

// records reads the tables, and skips the test where they are not.
func records(t *testing.T) (rows []record) {
	folder := os.Getenv("DRA_STEWARD_CORPUS")
	for up := ".."; folder == "" && len(up) < len("../../../../.."); up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "shared", "corpus")); err == nil {
			folder = filepath.Join(up, "shared", "corpus")
		}
	}
	file, err := os.Open(filepath.Join(folder, "upstream-1.37.0-tables.jsonl"))
	if folder == "" || err != nil {
		t.Skip("upstream's tables are not there; set DRA_STEWARD_CORPUS to the folder of the corpus")
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
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

var numbered = regexp.MustCompile(`^(.*?\.(?:requests|firstAvailable))\[(\d+)\](.*)$`)

// withNames turns the indexes of requests and their alternatives in a place into names.
func withNames(object json.RawMessage, place string) string {
	var o struct {
		Spec struct {
			resourceapi.ResourceClaimSpec
			Spec *resourceapi.ResourceClaimSpec
		}
	}
	if json.Unmarshal(object, &o) != nil {
		return place
	}
	if o.Spec.Spec == nil {
		o.Spec.Spec = &o.Spec.ResourceClaimSpec
	}
	prefix, list, is := strings.Cut(place, "devices.requests[")
	if !is {
		return place
	}
	at := numbered.FindStringSubmatch("x.requests[" + list)
	index, _ := strconv.Atoi(at[2])
	request := o.Spec.Spec.Devices.Requests[index]
	rest := at[3]
	if sub := numbered.FindStringSubmatch("x" + rest); sub != nil && sub[1] == "x.firstAvailable" {
		index, _ := strconv.Atoi(sub[2])
		rest = ".firstAvailable" + bracket(index, request.FirstAvailable[index].Name) + sub[3]
	}
	return prefix + "devices.requests" + bracket(index, request.Name) + rest
}

func bracket(index int, name string) string {
	if name == "" {
		return fmt.Sprintf("[%d]", index)
	}
	return "[" + name + "]"
}
