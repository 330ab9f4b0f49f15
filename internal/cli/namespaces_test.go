package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestNamespacesPage: docs/cli.md says for each command with -n what that is the namespace of,
// and for those with -A, and no others, what that changes.
func TestNamespacesPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:whatif |roll )?\\w+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	each(Command(cmdutil.Streams{}), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "dra-steward ")
		about, has := documented[path]
		delete(documented, path)
		if namespaced := c.Flags().Lookup("namespace") != nil && c.Flags().Lookup("context") != nil; namespaced != has {
			t.Errorf("%s: has -n: %t, is in the table of docs/cli.md: %t", path, namespaced, has)
		}
		if everywhere := c.Flags().Lookup("all-namespaces") != nil; has && everywhere == strings.HasPrefix(about, "no") {
			t.Errorf("%s: has -A: %t, docs/cli.md says %q", path, everywhere, about)
		}
	})
	for command := range documented {
		t.Errorf("docs/cli.md has %q, which is no command with -n", command)
	}
}
