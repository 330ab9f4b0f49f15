package cli

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestExitCodes: all commands have one scheme of exit codes, which docs/cli.md has, and its row of the code 3 names those
// commands whose help has it.
func TestExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var unknown []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if _, codes, has := strings.Cut(c.Long, "Exit codes:"); has {
			codes = strings.Join(strings.Fields(codes), " ")
			if !strings.HasPrefix(codes, "0 ") || !regexp.MustCompile(`\b2 (the command|a test|a file)`).MatchString(codes) || regexp.MustCompile(`[;,] [4-9] `).MatchString(codes) {
				t.Errorf("%s: exit codes %q", c.CommandPath(), codes)
			}
			if c.HasParent() && strings.Contains(codes, " 3 ") {
				unknown = append(unknown, "`"+c.Name()+"`")
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Command(cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}))
	slices.Sort(unknown)
	for _, row := range []string{"| 0 |", "| 1 |", "| 2 |", "| 3 | unknown: what decides could not be checked, and is named | " + strings.Join(unknown, ", ") + " |"} {
		if !strings.Contains(string(page), "\n"+row) {
			t.Errorf("docs/cli.md has no row %q", row)
		}
	}
}
