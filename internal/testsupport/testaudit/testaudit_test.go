package testaudit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEntries: a line that is being written is left for the next read, which begins where the last ended.
func TestEntries(t *testing.T) {
	type entry struct{ Verb string }
	path := filepath.Join(t.TempDir(), "audit.log")
	var got []string
	var offset int64
	for _, c := range []struct {
		text string
		want []string
	}{
		{`{"verb":"get"}` + "\n" + `{"verb":"li`, []string{"get"}},
		{`{"verb":"get"}` + "\n" + `{"verb":"list"}` + "\n", []string{"get", "list"}},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for end, e := range Entries[entry](t, path, offset) {
			got, offset = append(got, e.Verb), end
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
