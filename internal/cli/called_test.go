package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const plugin = "kubectl dra-steward"

// unnamed is a command of the program in a text that does not say how the program was called.
var unnamed = regexp.MustCompile(`(^|[^-/.\w])dra-steward (` + strings.Join(cmdutil.Commands(), "|") + `)\b`)

func says(text string) []string {
	return unnamed.FindAllString(strings.ReplaceAll(text, plugin, "kubectl-dra_steward"), -1)
}

// TestCommandsAreFound: Called knows every command.
func TestCommandsAreFound(t *testing.T) {
	var want []string
	root := Command(cmdutil.Streams{})
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		want = append(want, c.Name())
	}
	var have []string
	for _, name := range cmdutil.Commands() {
		name, subcommands, _ := strings.Cut(name, " ")
		have = append(have, name)
		for _, c := range root.Commands() {
			if c.Name() == name && subcommands != "" {
				var names []string
				for _, sub := range c.Commands() {
					names = append(names, sub.Name())
				}
				if slices.Sort(names); subcommands != "(?:"+strings.Join(names, "|")+")" {
					t.Errorf("%s has the commands %q, Called knows %s", name, names, subcommands)
				}
			}
		}
	}
	if slices.Sort(want); !slices.Equal(have, want) {
		t.Errorf("Called knows the commands\n%q, the program has\n%q", have, want)
	}
}

// TestHelpSaysHowItWasCalled: no command of kubectl's plugin shows the program by a name that is not
// in $PATH, in its help, and in the errors about arguments and flags.
func TestHelpSaysHowItWasCalled(t *testing.T) {
	each(Command(cmdutil.Streams{Name: plugin}), func(c *cobra.Command) {
		texts := []string{c.Long, c.Example, c.UsageString(), c.CommandPath()}
		c.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, text := range texts {
			if found := says(text); found != nil {
				t.Errorf("%s: %q in\n%s", c.CommandPath(), found, text)
			}
		}
		line := strings.Fields(strings.TrimPrefix(c.CommandPath(), plugin))
		for _, wrong := range [][]string{{"--no-such-flag"}, {"--help"}, {"a", "b", "c", "--no-such-flag"}} {
			var out bytes.Buffer
			Run(t.Context(), append(slices.Clone(line), wrong...), cmdutil.Streams{Name: plugin, Out: &out, Err: &out, In: strings.NewReader("")})
			if found := says(out.String()); found != nil || !strings.Contains(out.String(), plugin) {
				t.Errorf("%s %q: %q in\n%s", c.CommandPath(), wrong, found, &out)
			}
		}
	})
}

// TestHintsSayHowItWasCalled runs commands that end with a hint.
func TestHintsSayHowItWasCalled(t *testing.T) {
	for args, want := range map[string]string{
		"nothing":               "see 'kubectl dra-steward --help'",
		"explain xyz":           `"kubectl dra-steward explain" lists all`,
		"policy explain NO-001": `"kubectl dra-steward policy list" lists all`,
		"impact":                "see 'kubectl dra-steward impact --help'",
		"roll":                  "see 'kubectl dra-steward roll --help'",
		"drain --cancel --kubeconfig testdata/no":   "testdata/no",
		"lint ../../examples/denied":                "run 'kubectl dra-steward explain RULE'",
		"policy new ACME-1 --folder " + t.TempDir(): "next: kubectl dra-steward policy test",
	} {
		var out bytes.Buffer
		Run(t.Context(), strings.Fields(args), cmdutil.Streams{Name: plugin, Out: &out, Err: &out, In: strings.NewReader("")})
		if found := says(out.String()); found != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q, want %q in\n%s", args, found, want, &out)
		}
	}
}

// TestNoHardCodedName: a text with a command is one of help, or of an error, which Run names, or
// goes through Called.
func TestNoHardCodedName(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		var around []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				around = around[:len(around)-1]
				return true
			}
			around = append(around, n)
			if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING && !slices.ContainsFunc(around, named) {
				if value, err := strconv.Unquote(text.Value); err == nil && value != author && !strings.HasPrefix(value, "# Metrics") && unnamed.MatchString(value) {
					t.Errorf("%s: use Called or Program of the streams: %s", set.Position(text.Pos()), text.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// author is how uninstall says who has made a rule.
const author = "dra-steward taint"

// named reports whether texts in a node get the name by which the program was called.
func named(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec: // the description of a command
		return strings.HasSuffix(strings.ToLower(n.Names[0].Name), "help")
	case *ast.KeyValueExpr:
		key, is := n.Key.(*ast.Ident)
		return is && slices.Contains([]string{"Long", "Example", "Short"}, key.Name)
	case *ast.CallExpr:
		called, is := n.Fun.(*ast.SelectorExpr)
		return is && (slices.Contains([]string{"Errorf", "New", "Called"}, called.Sel.Name) || strings.HasSuffix(called.Sel.Name, "Var") || strings.HasSuffix(called.Sel.Name, "VarP"))
	}
	return false
}
