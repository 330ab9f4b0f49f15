package compare_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/test/oracle/compare"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// sides puts the object to Rules with errors that an API server might have found and
// returns the differences, side and place.
func sides(t *testing.T, object string, errors ...wire.Error) (found []string, outcome compare.Outcome) {
	t.Helper()
	c := wire.Case{ID: t.Name(), Op: wire.Create, Object: []byte(object), Gates: map[string]bool{wire.AllDRA: true}}
	outcome, err := compare.Rules(c, wire.Answer{Errors: errors}, 37)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range outcome.Differences {
		found = append(found, string(d.Side)+" "+d.Place)
	}
	return found, outcome
}

const badTaint = `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceTaintRule","metadata":{"name":"a"},
	"spec":{"taint":{"key":"a","value":"-","effect":"NoSchedule"}}}`

func TestRules(t *testing.T) {
	value := wire.Error{Type: "FieldValueInvalid", Field: "spec.taint.value"}
	if found, outcome := sides(t, badTaint, value); len(found) > 0 || outcome.Agreed != 1 {
		t.Errorf("both find it: %v", found)
	}
	if found, _ := sides(t, badTaint); len(found) != 1 || found[0] != "only ours spec.taint.value" {
		t.Errorf("only we find it: %v", found)
	}
	key := wire.Error{Type: "FieldValueInvalid", Field: "spec.taint.key"}
	if found, _ := sides(t, badTaint, value, key); len(found) != 1 || found[0] != "only the API server's spec.taint.key" {
		t.Errorf("only the API server finds it: %v", found)
	}
}

func TestPlaces(t *testing.T) {
	const slice = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","spec":{"devices":[
		{"name":"gpu-0","taints":[{"key":"-","effect":"None"}]},{"name":"7","taints":[{"key":"-","effect":"None"}]},{"taints":[{"key":"-","effect":"None"}]}]}}`
	const claim = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","spec":{"spec":{"devices":{"requests":[
		{"name":"a","exactly":{"tolerations":[{"key":"-"}]}},{"name":"b","firstAvailable":[{"name":"c","tolerations":[{"key":"-"}]}]}]}}}}`
	for _, test := range []struct {
		object string
		places []string
	}{
		{slice, []string{"spec.devices[0].taints[0].key", "spec.devices[1].taints[0].key", "spec.devices[2].taints[0].key"}},
		{claim, []string{"spec.spec.devices.requests[0].exactly.tolerations[0].key", "spec.spec.devices.requests[1].firstAvailable[0].tolerations[0].key"}},
	} {
		var errors []wire.Error
		for _, place := range test.places {
			errors = append(errors, wire.Error{Type: "FieldValueInvalid", Field: place})
		}
		if _, outcome := sides(t, test.object, errors...); outcome.Agreed < len(test.places) {
			t.Errorf("%s: %+v; want %d places that both find", test.object, outcome, len(test.places))
		}
	}
}
