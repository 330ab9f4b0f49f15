package campaign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const (
	webhookUser = "system:serviceaccount:" + controller.Namespace + ":dra-steward"
	// failedOpen is in the name of an annotation of writes that the webhook did not answer.
	failedOpen = "failed-open.mutation.webhook.admission.k8s.io/"
)

// An entry is a line of the audit log.
type entry struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Namespace, Name string }
	StageTimestamp time.Time
	ResponseStatus struct {
		Code            int
		Reason, Message string
	}
	RequestObject, ResponseObject json.RawMessage
	Annotations                   map[string]string
}

// unanswered reports whether the webhook did not answer.
func (e *entry) unanswered() bool {
	for name := range e.Annotations {
		if strings.HasPrefix(name, failedOpen) {
			return true
		}
	}
	return false
}

func (e *entry) succeeded() bool { return e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300 }

// A wrote is a request about a slice that changed it.
type wrote struct {
	at                   time.Time
	user, verb, name     string
	driver, pool, answer string
	stored               *resourceapi.ResourceSlice // nil for a deletion
}

// An audit follows the audit log.
type audit struct {
	w      *world
	offset int64
	// poolOf is the pool of each slice that there was.
	poolOf map[string][2]string
	// versions are the resource versions of slices: an update that changes nothing has that of before.
	versions map[string]string
	all      []wrote
	// writes count all and failedOpen those that the webhook did not answer.
	writes, failedOpen int
}

func newAudit(w *world) *audit {
	return &audit{w: w, poolOf: map[string][2]string{}, versions: map[string]string{}}
}

// read reads what is new, and returns what is wrong with it.
func (a *audit) read(t *testing.T, away []model.Span) (problems []string) {
	t.Helper()
	for end, e := range testaudit.Entries[entry](t, a.w.AuditLog(), a.offset) {
		a.offset = end
		if problem := problemOf(e, away); problem != "" {
			problems = append(problems, problem)
		}
		if e.ObjectRef.Resource == "resourceslices" && slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) && e.succeeded() {
			a.add(t, e)
		}
	}
	return problems
}

// problemOf is what docs/patches.md rules out: that something is refused to a driver or to us, and a
// write of ours that says something.
func problemOf(e *entry, away []model.Span) string {
	ours := e.User.Username == webhookUser || e.User.Username == controller.User
	code := e.ResponseStatus.Code
	text := fmt.Sprintf("%s %s %s %s: %d %s %s", e.StageTimestamp.UTC().Format("15:04:05.000"), e.User.Username, e.Verb, e.ObjectRef.Name, code, e.ResponseStatus.Reason, e.ResponseStatus.Message)
	restarting := slices.ContainsFunc(away, func(s model.Span) bool { return e.StageTimestamp.After(s.From) && e.StageTimestamp.Before(s.To) })
	switch {
	case restarting && (code == 401 || code == 403 || code == 429 || code >= 500):
		return ""
	case code == 401 || code == 403:
		return "refused: " + text
	case e.ObjectRef.Resource != "resourceslices":
		return ""
	case ours && (e.Verb == "create" || e.Verb == "update" || e.Verb == "delete" || e.Verb == "patch" && !changesNoDevice(e.RequestObject)):
		return "changes more than the record: " + text
	case ours || code < 400 || code == 404 || code == 409:
		return ""
	}
	return "refused to a driver: " + text
}

// changesNoDevice reports whether a patch is empty, or sets the record of one version of a slice.
func changesNoDevice(body []byte) bool {
	var patch struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&patch) != nil {
		return false
	}
	_, has := patch.Metadata.Annotations["dra-steward.io/materialized"]
	n := len(patch.Metadata.Annotations)
	return n == 0 && patch.Metadata.ResourceVersion == "" || n == 1 && has && patch.Metadata.ResourceVersion != ""
}

func (a *audit) add(t *testing.T, e *entry) {
	t.Helper()
	one := wrote{at: e.StageTimestamp, user: e.User.Username, verb: e.Verb, name: e.ObjectRef.Name, answer: "answered"}
	if e.Verb != "delete" {
		one.stored = &resourceapi.ResourceSlice{}
		if err := json.Unmarshal(e.ResponseObject, one.stored); err != nil {
			t.Fatal(err)
		}
		one.name = one.stored.Name
		if a.versions[one.name] == one.stored.ResourceVersion {
			return
		}
		a.versions[one.name] = one.stored.ResourceVersion
		a.poolOf[one.name] = [2]string{one.stored.Spec.Driver, one.stored.Spec.Pool.Name}
		a.writes++
		if e.unanswered() {
			one.answer = "NOT ANSWERED"
			a.failedOpen++
		}
	}
	one.driver, one.pool = a.poolOf[one.name][0], a.poolOf[one.name][1]
	a.all = append(a.all, one)
}

// losses are the slices of a pool that were deleted and created again since a time.
func (a *audit) losses(driver, pool string, since time.Time) (all []model.Loss) {
	index := func(name string) string {
		before, _, _ := strings.Cut(name, "-")
		return before
	}
	deleted := map[string]time.Time{}
	changed := map[string]time.Time{}
	var last time.Time
	for _, one := range a.all {
		if one.driver != driver || one.pool != pool {
			continue
		}
		at := index(one.name)
		switch begin, gone := deleted[at]; {
		case one.verb == "delete" && one.user == driver+driverUser: // it has published something else
			delete(deleted, at)
		case one.verb == "delete":
			deleted[at], changed[at] = one.at, last
		case one.verb == "create" && gone:
			if one.at.After(since) {
				all = append(all, model.Loss{Changed: changed[at], Deleted: begin, Created: one.at})
			}
			delete(deleted, at)
		}
		if one.verb != "delete" {
			last = one.at
		}
	}
	return all
}

// last is when a slice was written or deleted last.
func (a *audit) last() (at time.Time) {
	if n := len(a.all); n > 0 {
		at = a.all[n-1].at
	}
	return at
}

// evidence are the last writes of a pool.
func (a *audit) evidence(driver, pool string, n int) (lines []string) {
	for _, one := range slices.Backward(a.all) {
		if one.driver != driver || one.pool != pool {
			continue
		}
		if len(lines) == n {
			break
		}
		line := fmt.Sprintf("%s %s %s %s %s", one.at.UTC().Format("15:04:05.000"), one.user, one.verb, one.name, one.answer)
		if one.stored != nil {
			line += fmt.Sprintf(" generation %d, record of %d bytes", one.stored.Spec.Pool.Generation, len(one.stored.Annotations["dra-steward.io/materialized"]))
			for _, device := range model.Of(driver, one.stored.Spec.Devices) {
				line += "\n        " + describe(device)
			}
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return lines
}

func describe(d model.Device) string {
	var parts []string
	for name, v := range d.Values {
		parts = append(parts, fmt.Sprintf("%s=%s", strings.TrimPrefix(v.Spelling, name.Full[:strings.Index(name.Full, "/")+1]), v.Text))
	}
	slices.Sort(parts)
	return d.Name + ": " + strings.Join(parts, ", ")
}
