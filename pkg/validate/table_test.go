package validate

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestLiftKeepsAll: a rule of a part keeps its checks and all that it says of itself as a rule of the
// whole. Only the table of the API server has mirrors.
func TestLiftKeepsAll(t *testing.T) {
	says := func(what string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), what, "")}
	}
	rules := Table[int]{{
		ID: "a", Doc: "d", Category: Limit, Severity: Audit, CrossObject: true, Upstream: "u", Source: "s",
		Check:  func(int, Pass) field.ErrorList { return says("check") },
		Update: func(int, int, Pass) field.ErrorList { return says("update") },
	}}
	lifted := lift(func(s string, _ Pass) int { return len(s) }, rules)
	part, whole := reflect.ValueOf(rules[0]), reflect.ValueOf(lifted[0])
	for i := range part.NumField() {
		of := part.Type().Field(i)
		switch {
		case of.Name == "mirror":
		case part.Field(i).IsZero():
			t.Errorf("the test gives the rule no %s", of.Name)
		case of.Type.Kind() == reflect.Func:
		case !reflect.DeepEqual(part.Field(i).Interface(), whole.Field(i).Interface()):
			t.Errorf("%s is %v, want %v", of.Name, whole.Field(i), part.Field(i))
		}
	}
	if errs := lifted[0].Check("", Pass{}); len(errs) != 1 || errs[0].BadValue != "check" {
		t.Errorf("check: %v", errs)
	}
	if errs := lifted[0].Update("", "", Pass{}); len(errs) != 1 || errs[0].BadValue != "update" {
		t.Errorf("update: %v", errs)
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
	wantFrozen(t, PodDeletions)
}

func wantFrozen[T any](t *testing.T, table func() Table[T]) {
	t.Helper()
	all := table()
	first, one := all[0].ID, Rule[T]{ID: "appended"}
	_ = append(all[:1], one)
	all[0] = one
	for i, of := range table() {
		if i == 0 && of.ID != first || of.ID == "appended" {
			t.Errorf("entry %d of %T is %s", i, all, of.ID)
		}
	}
}
