package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// ownFormats are the commands without kubectl's formats, with the reason.
func ownFormats() map[string]string {
	return map[string]string{
		"dra-steward lint": "its formats are those of tools that read findings: text, json, sarif, junit and github",
	}
}

// before are what a command needs before it looks at --output.
func before() map[string]string {
	return map[string]string{
		"drain": "--list", "taint": "--list", "roll": "--list", "roll nodes": "--list", "fit": "-f a.yaml", "impact": "a/b/c example.com/k", "why": "pod/a",
		"whatif taint": "a/b/c example.com/k:NoExecute", "whatif drain": "a/b/c", "whatif node": "a", "whatif claims": "-f ../../examples/admitted",
		"whatif patch": "-f ../../examples/admitted", "whatif class": "-f ../../examples/admitted", "whatif upgrade": "--to 1.37",
	}
}

// TestOutputFormats: every -o takes, offers and describes json, yaml and jsonpath.
func TestOutputFormats(t *testing.T) {
	found := 0
	each(Command(cmdutil.Streams{}), func(c *cobra.Command) {
		flag := c.Flags().Lookup("output")
		if flag == nil || ownFormats()[c.CommandPath()] != "" {
			return
		}
		found++
		path := strings.TrimPrefix(c.CommandPath(), "dra-steward ")
		run := func(format string) string {
			var out bytes.Buffer
			args := slices.Concat(strings.Fields(path), strings.Fields(before()[path]), []string{"-o", format})
			if c.Flags().Lookup("server") != nil {
				args = append(args, "--server=https://127.0.0.1:1")
			}
			Run(t.Context(), args, cmdutil.Streams{Out: &out, Err: &out, In: strings.NewReader("")})
			return out.String()
		}
		for _, format := range []string{"json", "yaml", "jsonpath=", "custom-columns="} {
			if !strings.Contains(flag.Usage, format) {
				t.Errorf("%s: --output does not describe %s: %s", path, format, flag.Usage)
			}
			var out bytes.Buffer
			Run(t.Context(), slices.Concat([]string{"__complete"}, strings.Fields(path), []string{"-o", ""}), cmdutil.Streams{Out: &out, Err: &out})
			if !strings.Contains(out.String(), format) {
				t.Errorf("%s: -o does not offer %s:\n%s", path, format, &out)
			}
		}
		if text := run("nonsense"); !strings.Contains(text, `--output "nonsense": must be one of `) || !strings.Contains(text, "yaml") {
			t.Errorf("%s -o nonsense: %s", path, text)
		}
		if text := run("jsonpath={"); !strings.Contains(text, "--output jsonpath={: ") {
			t.Errorf("%s -o jsonpath={: %s", path, text)
		}
		for _, format := range []string{"json", "yaml", "jsonpath={.a}"} {
			if path == "policy bench" || path == "policy test" {
				break // which run for seconds
			}
			if text := run(format); strings.Contains(text, "--output") {
				t.Errorf("%s -o %s: %s", path, format, text)
			}
		}
	})
	if found < 20 {
		t.Errorf("%d commands have --output", found)
	}
}
