package quantity_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/quantity"
)

func TestMayStall(t *testing.T) {
	for text, want := range map[string]bool{
		`{"value":"1e-999999999"}`:                           true,
		`{"value":1E-99999}`:                                 true,
		`["-1.5e-0012345"]`:                                  true,
		`"` + strings.Repeat("1", 9000) + `"`:                true,
		`{"value":"80Gi"}`:                                   false,
		`{"value":"1e-9999"}`:                                false,
		`{"uid":"6f1c2d3e-4b1e-4c5e-8a7e-123456789012"}`:     false,
		`{"name":"node-1e-123456"}`:                          false,
		`"` + strings.Repeat("1", 4000) + `"`:                false,
		`"` + strings.Repeat("a", 1<<20) + `"`:               false,
		`{"a":"` + strings.Repeat("e-", 1<<19) + `"}`:        false,
		`{"a":"` + strings.Repeat("1e-1e-1e-", 1<<16) + `"}`: false,
	} {
		if got := quantity.MayStall([]byte(text)); got != want {
			t.Errorf("%.60s: got %v, want %v", text, got, want)
		}
	}
}

// FuzzMayStall holds the promise: what it lets pass is parsed soon.
func FuzzMayStall(f *testing.F) {
	for _, seed := range []string{"1e-99999", "1e9999999", "80Gi", "-1.5e-9999", strings.Repeat("7", 5000), "0.1E+12"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if quantity.MayStall([]byte(`"` + number + `"`)) {
			return
		}
		start := time.Now()
		_, _ = resource.ParseQuantity(number)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%.100q takes %v", number, took)
		}
	})
}
