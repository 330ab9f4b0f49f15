package campaign

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

// TestLosses: only a slice that another user than its driver has deleted was lost, and each loss
// ends when the slice of that index is created again.
func TestLosses(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	did := func(seconds int, user, verb, name string) wrote {
		return wrote{at: at(seconds), user: user, verb: verb, name: name, driver: "d", pool: "p"}
	}
	a := audit{all: []wrote{
		did(1, "d-plugin", "create", "00000-d-a"), did(1, "d-plugin", "create", "00001-d-b"),
		did(2, "d-plugin", "delete", "00000-d-a"), did(3, "d-plugin", "create", "00000-d-c"),
		did(10, "admin", "delete", "00001-d-b"), did(11, "d-plugin", "update", "00000-d-c"), did(12, "d-plugin", "create", "00001-d-e"),
		{at: at(13), user: "admin", verb: "delete", name: "00000-d-f", driver: "d", pool: "other"},
	}}
	got := a.losses("d", "p", at(0))
	if want := (model.Loss{Changed: at(3), Deleted: at(10), Created: at(12)}); len(got) != 1 || got[0] != want {
		t.Errorf("losses %v, want %v", got, want)
	}
	if got := a.losses("d", "p", at(12)); len(got) != 0 {
		t.Errorf("losses %v of before", got)
	}
}

// TestProblems: what docs/patches.md rules out is found in the audit log, and nothing else.
func TestProblems(t *testing.T) {
	restart := []model.Span{{From: time.Unix(100, 0), To: time.Unix(200, 0)}}
	for name, test := range map[string]struct {
		user, verb, body string
		code             int
		at               int64
		want             string
	}{
		"a driver publishes":       {"d", "update", "", 200, 1, ""},
		"a conflict":               {"d", "update", "", 409, 1, ""},
		"a slice that is gone":     {"d", "delete", "", 404, 1, ""},
		"an invalid slice":         {"d", "update", "", 422, 1, "refused to a driver"},
		"a slice that is denied":   {"d", "create", "", 400, 1, "refused to a driver"},
		"no permission":            {"d", "create", "", 403, 1, "refused"},
		"an error":                 {"d", "create", "", 500, 1, "refused to a driver"},
		"an error during restarts": {"d", "create", "", 500, 150, ""},
		"an empty update":          {controller.User, "patch", "{}", 200, 1, ""},
		"an update of a record":    {controller.User, "patch", `{"metadata":{"resourceVersion":"7","annotations":{"dra-steward.io/materialized":"x"}}}`, 200, 1, ""},
		"a record of any version":  {controller.User, "patch", `{"metadata":{"annotations":{"dra-steward.io/materialized":"x"}}}`, 200, 1, "changes more than the record"},
		"another annotation":       {controller.User, "patch", `{"metadata":{"resourceVersion":"7","annotations":{"example.com/a":"x"}}}`, 200, 1, "changes more than the record"},
		"an update with content":   {controller.User, "patch", `{"spec":{}}`, 200, 1, "changes more than the record"},
		"a deletion of ours":       {controller.User, "delete", "", 200, 1, "changes more than the record"},
		"an update of the webhook": {webhookUser, "update", "", 200, 1, "changes more than the record"},
		"a right that we lack":     {controller.User, "patch", "{}", 403, 1, "refused"},
	} {
		var e entry
		e.User.Username, e.Verb, e.ObjectRef.Resource, e.ResponseStatus.Code = test.user, test.verb, "resourceslices", test.code
		e.StageTimestamp, e.RequestObject = time.Unix(test.at, 0), json.RawMessage(test.body)
		if got := problemOf(&e, restart); (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
