package natural_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/internal/text/natural"
)

func TestCompare(t *testing.T) {
	want := []string{"", "a", "a[0]", "a[02]", "a[2]", "a[02].b", "a[10]", "a[10].b", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
