package apiserver

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// TestLiftKeepsAllChecks: a rule of a part keeps each of its checks, and what it says of
// itself, as a rule of the whole.
func TestLiftKeepsAllChecks(t *testing.T) {
	says := func(what string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), what, "")}
	}
	rules := Table[int]{{
		ID: "a", Doc: "d", Upstream: "u", Source: "s",
		Check:        func(int, Pass) field.ErrorList { return says("check") },
		Update:       func(int, int, Pass) field.ErrorList { return says("update") },
		preAdmission: func(int, Pass) field.ErrorList { return says("preAdmission") },
	}}
	for name, lifted := range map[string]Table[string]{
		"lift":    lift(func(s string) int { return len(s) }, rules),
		"liftFor": liftFor(func(s string, _ walk.Server) int { return len(s) }, rules),
	} {
		rule := lifted[0]
		if rule.ID != "a" || rule.Doc != "d" || rule.Upstream != "u" || rule.Source != "s" {
			t.Errorf("%s: %+v", name, rule)
		}
		for what, errs := range map[string]field.ErrorList{
			"check":        lifted.Validate("", Conditions{}),
			"update":       lifted.ValidateUpdate("", "", Conditions{}),
			"preAdmission": rule.PreAdmission("", Conditions{}),
		} {
			if len(errs) != 1 || errs[0].BadValue != what {
				t.Errorf("%s: %s: %v", name, what, errs)
			}
		}
	}
}

// failing is a rule of a part whose checks say which one they are.
func failing[T any]() Table[T] {
	says := func(what string) func(T, Pass) field.ErrorList {
		return func(T, Pass) field.ErrorList { return field.ErrorList{field.Invalid(field.NewPath("spec"), what, "")} }
	}
	return Table[T]{{ID: "a", Doc: "d", Upstream: "u", Source: "s", Check: says("check"), preAdmission: says("preAdmission")}}
}

// kept returns what lifted rules say of themselves, and what their checks say: at creation, at an
// update and before admission.
func kept[T any](lifted Table[T], object T) (all []any) {
	rule := lifted[0]
	all = append(all, rule.ID, rule.Doc, rule.Upstream, rule.Source)
	for _, errs := range []field.ErrorList{
		lifted.Validate(object, Conditions{}), lifted.ValidateUpdate(object, object, Conditions{}), rule.PreAdmission(object, Conditions{}),
	} {
		for _, err := range errs {
			all = append(all, err.BadValue)
		}
	}
	return all
}

// TestLiftsOfKinds: the rules of templates, classes and statuses keep their checks as well.
func TestLiftsOfKinds(t *testing.T) {
	updates := failing[metadata]()
	updates[0].Update = func(metadata, metadata, Pass) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), "update", "")}
	}
	claim := &resourceapi.ResourceClaim{}
	for name, tt := range map[string]struct {
		got  []any
		want string
	}{
		"liftTemplate":         {kept(liftTemplate(failing[walk.ClaimSpec]()), &resourceapi.ResourceClaimTemplate{}), "[a d u s check check preAdmission]"},
		"liftClass":            {kept(liftClass(failing[walk.SelectorWalk](), classSelectors), &resourceapi.DeviceClass{}), "[a d u s check check preAdmission]"},
		"liftReset":            {kept(liftReset(failing[metadata](), claimStatusPart), claim), "[a d u s check check preAdmission]"},
		"liftReset of Update":  {kept(liftReset(updates, claimStatusPart), claim), "[a d u s check update preAdmission]"},
		"liftStatus, no crash": {kept(liftStatus(failing[statusWrite]()), claim), "[a d u s check check]"},
	} {
		if got := fmt.Sprint(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestFrozen: a caller that changes a table does not change that of others.
func TestFrozen(t *testing.T) {
	wantFrozen(t, ResourceSlice)
	wantFrozen(t, DeviceTaintRule)
	wantFrozen(t, DeviceTaintRuleStatus)
	wantFrozen(t, ResourceClaim)
	wantFrozen(t, ResourceClaimTemplate)
	wantFrozen(t, ResourceClaimStatus)
	wantFrozen(t, DeviceClass)
	wantFrozen(t, ResourceSlicePatch)
	wantFrozen(t, DeviceDrain)
	wantFrozen(t, DeviceRoll)
	wantFrozen(t, DeviceReaction)
}

func wantFrozen[T any](t *testing.T, table func() Table[T]) {
	t.Helper()
	all := table()
	first := all[0].ID
	_ = append(all[:1], Rule[T]{ID: "appended"})
	all[0] = Rule[T]{ID: "replaced"}
	for i, rule := range table() {
		if i == 0 && rule.ID != first || rule.ID == "appended" {
			t.Errorf("rule %d of %T is %s", i, all, rule.ID)
		}
	}
}
