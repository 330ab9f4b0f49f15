package objects_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/test/oracle/objects"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

func TestCaseIsDetermined(t *testing.T) {
	kinds := map[string]bool{}
	for i := range uint64(300) {
		first, err := objects.Case(7, i)
		if err != nil {
			t.Fatal(err)
		}
		again, err := objects.Case(7, i)
		if err != nil || !bytes.Equal(first.Object, again.Object) || !bytes.Equal(first.Old, again.Old) {
			t.Fatalf("case %s is not always the same:\n%s\n%s", first.ID, first.Object, again.Object)
		}
		var meta struct{ Kind string }
		if err := json.Unmarshal(first.Object, &meta); err != nil {
			t.Fatal(err)
		}
		kinds[meta.Kind+" "+first.Op+" "+first.Subresource] = true
	}
	for _, want := range []string{"ResourceSlice create ", "ResourceSlice update ", "ResourceClaim create ", "ResourceClaim update ",
		"ResourceClaim update status", "ResourceClaimTemplate create ", "DeviceClass create ", "DeviceTaintRule create "} {
		if !kinds[want] {
			t.Errorf("no %s among 300 cases", want)
		}
	}
}

func TestShrink(t *testing.T) {
	c := wire.Case{Op: wire.Create, Object: []byte(
		`{"kind":"X","spec":{"a":[1,2,{"bad":"` + strings.Repeat("y", 40) + `","other":{}}],"b":{"c":[]}}}`)}
	asked := 0
	smallest, err := objects.Shrink(c, func(cases []wire.Case) (int, error) {
		for i, c := range cases {
			asked++
			if bytes.Contains(c.Object, []byte(`"bad":"y`)) {
				return i, nil
			}
		}
		return -1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"X","spec":{"a":[{"bad":"yyyyy"}]}}`; string(smallest.Object) != want {
		t.Errorf("after %d attempts %s, want %s", asked, smallest.Object, want)
	}
	broken := errors.New("broken")
	if _, err := objects.Shrink(c, func([]wire.Case) (int, error) { return -1, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the oracle", err)
	}
}

// BenchmarkCase is what the making of a case costs beside its judgement.
func BenchmarkCase(b *testing.B) {
	size := 0
	for i := 0; b.Loop(); i++ {
		c, err := objects.Case(1, uint64(i))
		if err != nil {
			b.Fatal(err)
		}
		size += len(c.Object) + len(c.Old)
	}
	b.ReportMetric(float64(size)/float64(b.N), "bytes/case")
}
