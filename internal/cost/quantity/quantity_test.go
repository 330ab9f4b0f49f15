package quantity_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

var numbers = map[string]bool{
	"1e-999999999": true, "1E-99999": true, "-1.5e-0012345": true, "+.5e-1000": true, "0e-999999999": true,
	// The parser keeps 32 bits of the exponent.
	"1e4194967296": true, "1E+4292967296": true, "1e9223372036854775807": true, "1e4294967296": true,
	// These are parsed soon, and compared late.
	"1e2147483647": true, "1e1000": true, "0.000e00001000": true,
	strings.Repeat("1", 1025): true, strings.Repeat("1", 1001): true, strings.Repeat("1", 990) + "E": true, "1" + strings.Repeat("0", 30) + "e980": true, "0." + strings.Repeat("0", 1024) + "1": true, strings.Repeat("7", 1025) + "Gi": true,

	"80Gi": false, "0": false, "-1.5": false, "1e-999": false, "1e999": false, "1E+000000000000000000000012": false, "5E": false, "1Ei": false,
	strings.Repeat("1", 1000): false, "0." + strings.Repeat("1", 1000) + "e999": false, strings.Repeat("0", 1000) + "1e999": false, strings.Repeat("1", 981) + "Gi": false, "1" + strings.Repeat("0", 999) + "e-5": false, ".5m": false, "100n": false, "9223372036854775808": false, "0.0000000001": false,
	"": false, "abc": false, "1e": false, "e-99999": false, "1e-99999x": false, "1e-9999.5": false, "6f1c2d3e-4b1e-4c5e-8a7e-123456789012": false,
}

// TestParse: what is within the bounds is what the parser of Kubernetes says, and the rest is refused.
func TestParse(t *testing.T) {
	for text, refused := range numbers {
		if got := quantity.Bounded(text) != nil; got != refused {
			t.Errorf("%.60q: refused %t, want %t", text, got, refused)
		}
		same(t, text)
	}
}

func same(t *testing.T, text string) {
	t.Helper()
	start := time.Now()
	got, err := quantity.Parse(text)
	if took := time.Since(start); took > time.Second/4 {
		t.Errorf("%.100q takes %v", text, took)
	}
	if quantity.Bounded(text) != nil {
		if err == nil {
			t.Errorf("%.100q is beyond the bounds, and parsed", text)
		}
		return
	}
	want, wrong := resource.ParseQuantity(text)
	if (err == nil) != (wrong == nil) || err == nil && (got.Cmp(want) != 0 || got.String() != want.String()) {
		t.Errorf("%.100q: got %v, %v, want %v, %v", text, got, err, want, wrong)
	}
	if err == nil && quantity.Bounded(got.String()) != nil {
		t.Errorf("%.100q is within the bounds, and beyond them as it is stored: %.100s", text, got.String())
	}
}

// FuzzParse: what is within the bounds is soon parsed as Kubernetes parses it, and soon compared and written.
func FuzzParse(f *testing.F) {
	for text := range numbers {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { same(t, text) })
}

// FuzzWritten: no number that a Quantity writes is refused.
func FuzzWritten(f *testing.F) {
	for _, amount := range []int64{0, 1, -1, 1536, 1 << 40, 999_999_999, -1 << 63} {
		f.Add(amount, int32(resource.Milli))
	}
	f.Fuzz(func(t *testing.T, amount int64, scale int32) {
		for _, format := range []resource.Format{resource.DecimalExponent, resource.DecimalSI, resource.BinarySI} {
			q := resource.NewScaledQuantity(amount, resource.Scale(scale%100))
			q.Format = format
			same(t, q.String())
			if err := quantity.Bounded(q.String()); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
	})
}
