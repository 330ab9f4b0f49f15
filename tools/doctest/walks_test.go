package doctest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// maxFiles is how many files a reader of a walk enters at most.
const maxFiles = 6

var codeLink = regexp.MustCompile(`\]\(([^)#\s]+\.go)#(\w+)\)`)

// TestCodeLinks fails for a link FILE.go#Name whose file declares no function or type of
// that name.
func TestCodeLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range codeLink.FindAllStringSubmatch(page.Prose, -1) {
			file, name := filepath.Join(filepath.Dir(page.Name), match[1]), match[2]
			source, err := os.ReadFile(filepath.Join(root, file))
			declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + name + `\b`)
			if err != nil || !declared.Match(source) {
				t.Errorf("%s: link to %s in %s: not declared there (%v)", page.Name, name, file, err)
			}
		}
	}
}

var (
	testLink = regexp.MustCompile(`\[((?:Test|Fuzz|Benchmark|Example)\w*)\]\(([^)#\s]*)\)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
)

// TestTestLinks fails for a link with the name of a test as its text, to a file that has no
// such test. With -update it writes the file that has it, also into [TestName]().
func TestTestLinks(t *testing.T) {
	files := testFiles(t)
	for _, page := range pages(t) {
		var moves []string // pairs of an old link and a new one
		for _, match := range testLink.FindAllStringSubmatch(page.Prose, -1) {
			name, file := match[1], filepath.ToSlash(filepath.Join(filepath.Dir(page.Name), match[2]))
			if slices.Contains(files[name], file) {
				continue
			}
			if !*update || len(files[name]) != 1 {
				t.Errorf("%s: link to %s in %s: there is no such test; %q have it (go test ./tools/doctest -run TestTestLinks -update links one)", page.Name, name, file, files[name])
				continue
			}
			target, err := filepath.Rel(filepath.Dir(page.Name), files[name][0])
			if err != nil {
				t.Fatal(err)
			}
			moves = append(moves, match[0], "["+name+"]("+filepath.ToSlash(target)+")")
		}
		if len(moves) > 0 {
			rewrite(t, filepath.Join(root, page.Name), moves)
		}
	}
}

// testFiles are the files of the tree that declare a test, by its name.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		for _, match := range testFunc.FindAllSubmatch(source, -1) {
			files[string(match[1])] = append(files[string(match[1])], filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d tests: %v", len(files), err)
	}
	return files
}

// rewrite replaces texts of a file.
func rewrite(t *testing.T, name string, pairs []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.NewReplacer(pairs...).Replace(string(data))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRequirements fails for a requirement in docs/keps.md without a test, unless its row
// says so.
func TestRequirements(t *testing.T) {
	page, err := doctest.Read(filepath.Join(root, "docs/keps.md"))
	if err != nil {
		t.Fatal(err)
	}
	requirements := 0
	for line := range strings.Lines(page.Prose) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| requirement |") || strings.HasPrefix(line, "| --- |") {
			continue
		}
		requirements++
		if len(cells) != 4 {
			t.Errorf("%d cells, want 4: %s", len(cells), line)
		} else if !testLink.MatchString(cells[2]) && !strings.Contains(cells[2], "not tested") {
			t.Errorf("no test, and not the words \"not tested\": %s", line)
		}
	}
	if requirements == 0 {
		t.Error("docs/keps.md has no requirements")
	}
}

// entered are functions of the walks that code outside the walks calls: admission.Webhook of
// controller-runtime, for an HTTP request.
func entered() []string { return []string{"Handle"} }

// TestWalks fails for a walk of docs/architecture.md that enters too many files, that does not
// say what it leaves out, or that has a gap: a function after the first that no function in the
// files of the walk names.
func TestWalks(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	walks := strings.Split(string(data), "\n## From ")[1:]
	if len(walks) != 3 {
		t.Errorf("%d walks, want 3", len(walks))
	}
	for _, walk := range walks {
		title, _, _ := strings.Cut(walk, "\n")
		if !strings.Contains(walk, "\nNot counted: ") {
			t.Errorf("the walk from %s does not say what is not counted", title)
		}
		var files, functions []string
		for _, match := range codeLink.FindAllStringSubmatch(walk, -1) {
			files, functions = append(files, match[1]), append(functions, match[2])
		}
		if len(functions) == 0 {
			t.Errorf("the walk from %s names no functions", title)
			continue
		}
		slices.Sort(files)
		files = slices.Compact(files)
		if len(files) > maxFiles {
			t.Errorf("the walk from %s enters %d files, want at most %d", title, len(files), maxFiles)
		}
		used := map[string]bool{}
		for _, file := range files {
			addUses(t, filepath.Join(root, "docs", file), used)
		}
		for _, name := range functions[1:] {
			if !used[name] && !slices.Contains(entered(), name) {
				t.Errorf("the walk from %s: no function in its files calls %s", title, name)
			}
		}
	}
}

// addUses adds the names that a file uses outside the functions that declare them.
func addUses(t *testing.T, name string, used map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		own := ""
		if function, is := declaration.(*ast.FuncDecl); is {
			own = function.Name.Name
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			if identifier, is := node.(*ast.Ident); is && identifier.Name != own {
				used[identifier.Name] = true
			}
			return true
		})
	}
}
