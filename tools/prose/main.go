// Command prose checks the texts that users read against docs/glossary.md: pages, help,
// messages, the chart and the policies. It makes the rules of vale from the glossary and
// runs vale on the texts, each under its own path and with its own line numbers.
//
//	go run . ../..        check the tree in ../..
//	go run . -list ../..  print the rules
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// glossary is the page with the words that are not used, below the root of the tree.
const glossary = "docs/glossary.md"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	list := flag.Bool("list", false, "print the rules and check nothing")
	flag.Parse()
	err := run(ctx, flag.Arg(0), *list, os.Stdout)
	switch {
	case errors.As(err, new(foundError)):
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
}

// A foundError is returned for findings, which have been printed.
type foundError int

func (e foundError) Error() string {
	return fmt.Sprintf("%d phrases that %s does not allow", int(e), glossary)
}

func run(ctx context.Context, root string, list bool, out io.Writer) error {
	page, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		return err
	}
	phrases := parse(string(page))
	if len(phrases) == 0 {
		return fmt.Errorf("%s: no table with a column \"not\" has a phrase in backquotes", glossary)
	}
	if list {
		for _, p := range phrases {
			fmt.Fprintf(out, "%s: %s\n", p.Not, p.message())
		}
		return nil
	}
	vale, err := valePath(ctx)
	if errors.Is(err, errNoCompiler) {
		return unchecked(err, os.Getenv, out)
	} else if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "prose")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return check(ctx, vale, root, dir, phrases, out)
}

// noCompiler is the variable that .ci/run sets where it cannot install a compiler.
const noCompiler = "DRA_STEWARD_NO_COMPILER"

// unchecked is the result without a compiler: an error with CI=true, unless none can be installed.
func unchecked(err error, getenv func(string) string, out io.Writer) error {
	if getenv("CI") == "true" && getenv(noCompiler) != "yes" {
		return fmt.Errorf("%w: install gcc and libc6-dev, or set %s=yes where that is impossible", err, noCompiler)
	}
	fmt.Fprintln(out, "prose: not checked:", err)
	return nil
}

// check writes rules and texts into dir and runs vale there.
func check(ctx context.Context, vale, root, dir string, phrases []phrase, out io.Writer) error {
	texts := filepath.Join(dir, "texts")
	if err := errors.Join(writeStyle(dir, phrases), writeTexts(os.DirFS(root), texts)); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, vale, "--no-global", "--no-wrap", "--output=line", "--config="+filepath.Join(dir, "vale.ini"), ".")
	command.Dir = texts
	var lines strings.Builder
	command.Stdout, command.Stderr = &lines, os.Stderr
	err := command.Run()
	// The path of a text is that of its source, with ".txt" after it where vale would
	// otherwise take it for code.
	_, _ = io.WriteString(out, strings.ReplaceAll(lines.String(), ".txt:", ":"))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return foundError(strings.Count(lines.String(), "\n"))
	}
	return err
}

// errNoCompiler is returned where vale cannot be built.
var errNoCompiler = errors.New("vale needs cgo and a C compiler such as gcc")

// valePath builds vale unless the cache has it, and returns its path.
func valePath(ctx context.Context) (string, error) {
	environment, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		return "", err
	}
	enabled, compiler, _ := strings.Cut(strings.TrimSpace(string(environment)), "\n")
	if _, err := exec.LookPath(compiler); enabled != "1" || err != nil {
		return "", errNoCompiler
	}
	command := exec.CommandContext(ctx, "go", "tool", "-n", "vale")
	command.Stderr = os.Stderr
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimSpace(string(path)), nil
}

// writeTexts writes what is checked of the tree below dir.
func writeTexts(tree fs.FS, dir string) error {
	count := 0
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(name) {
				return fs.SkipDir
			}
			return nil
		}
		extract := extractor(name)
		if extract == nil {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		text, err := extract(name, string(data))
		if err != nil || strings.TrimSpace(text) == "" {
			return err
		}
		if filepath.Ext(name) != ".md" {
			name += ".txt"
		}
		count++
		target := filepath.Join(dir, filepath.FromSlash(name))
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, []byte(text), 0o644))
	})
	if err == nil && count == 0 {
		err = errors.New("no texts found")
	}
	return err
}
