package manifest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// TestCostlyPlaces: the places of many problems, of keys that YAML may convert and beyond an odd line break, are found in
// a moment.
func TestCostlyPlaces(t *testing.T) {
	var digits strings.Builder
	digits.WriteString("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n")
	for n := range 20_000 {
		fmt.Fprintf(&digits, "  %07d: 0\n", n)
	}
	var labels strings.Builder
	labels.WriteString("#\u2028\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, labels: {")
	for n := range 20_000 {
		fmt.Fprintf(&labels, "a%06d: b, ", n)
	}
	labels.WriteString("z: z}}\nspec: {devics: {}}\n")
	for name, text := range map[string]string{"digits": digits.String(), "labels": labels.String()} {
		begin := time.Now()
		object, problems := manifest.Decode(one(t, text))
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
		if object != nil && len(problems) == 0 {
			t.Errorf("%s: %d problems", name, len(problems))
		}
	}
}

// TestItemsOfAnyKind: for kubectl, an object of any kind is a list if it has items that are objects.
func TestItemsOfAnyKind(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\nitems:\n"
	for items, want := range map[string]string{
		"- {apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: rack}}\n": "ResourceClaim",
		"- {name: a}\n": "ConfigMap",
	} {
		if got := one(t, head+items).Kind; got != want {
			t.Errorf("%s: read as %s, want %s", items, got, want)
		}
	}
}
