package doctest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNullIsQuoted: in examples and pages the name null is in quotes, as YAML reads a
// bare one as no key at all; but for the file and the page that show its effect.
func TestNullIsQuoted(t *testing.T) {
	bare, quoted := regexp.MustCompile(`(?m)(^|[{,\s])null\s*:`), 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != root:
			return filepath.SkipDir
		case entry.IsDir(), filepath.Base(name) == "bare-null.yaml":
			return nil
		}
		switch filepath.Ext(name) {
		case ".yaml", ".md", ".txtar":
		default:
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := string(data)
		quoted += strings.Count(text, `"null":`)
		if strings.HasSuffix(name, "docs/patches.md") {
			text = strings.Replace(text, "-        null: {} # take it away", "", 1)
		}
		if at := bare.FindStringIndex(text); at != nil {
			t.Errorf("%s:%d: a bare null: write \"null\"", name, 1+strings.Count(text[:at[1]], "\n"))
		}
		return nil
	})
	if err != nil || quoted == 0 {
		t.Errorf("%d quoted ones, %v", quoted, err)
	}
}
