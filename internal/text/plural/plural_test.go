package plural_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 1000: "1000 pods"} {
		if got := plural.Of(n, "pod"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	names := []string{"a", "b", "c"}
	for want, got := range map[string]string{
		"": plural.List(nil, 2, 0), "a, b, c": plural.List(names, 3, 3), "a, b and 1 more": plural.List(names, 2, 3), "a, b, c and 7 more": plural.List(names, 9, 10),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
