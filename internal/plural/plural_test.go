package plural_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/plural"
)

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 1000: "1000 pods"} {
		if got := plural.Of(n, "pod"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
