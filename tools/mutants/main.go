// Command mutants puts plausible bugs into the tree, one at a time, and reports those that
// the tests of the nearest package do not find. The tree itself stays as it is: go test reads
// the changed file from elsewhere.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// timeout is how long the tests of one mutant may take. A mutant that lets them hang is found. The tests end by
// themselves: if go were killed instead, their process would go on.
const timeout = 5 * time.Minute

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	tree := flags.String("tree", ".", "root of the repository")
	only := flags.String("run", "", "regular expression for the names and files of the mutants to run")
	after := flags.Int("after", 0, "number of mutants to leave out, to resume a run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	selected, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var problems []string
	list := all()
	for i, m := range list {
		if i < *after || !selected.MatchString(m.name+" "+m.file) {
			continue
		}
		begin := time.Now()
		found, err := m.found(ctx, *tree, dir)
		word := "found"
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			word = err.Error()
			problems = append(problems, m.file+": "+m.name+": "+word)
		case !found && m.survives != "":
			word = "survives: " + m.survives
		case !found:
			word = "SURVIVES"
			problems = append(problems, m.file+": "+m.name+": no test finds it")
		}
		fmt.Fprintf(out, "%3d/%d %5.1fs %s: %s: %s\n", i+1, len(list), time.Since(begin).Seconds(), m.file, m.name, word)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d of %d:\n%s", len(problems), len(list), strings.Join(problems, "\n"))
	}
	return nil
}

// apply returns the file with the bug.
func (m mutant) apply(tree string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(tree, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("the text to replace occurs %d times, want once: %q", n, m.old)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// packagePath is the package whose tests run, below the folder of its module.
func (m mutant) packagePath(tree string) (module, path string) {
	folder := filepath.Dir(m.file)
	switch {
	case m.tests != "":
		folder = m.tests
	case folder == "internal/drain" || folder == "internal/roll": // the tests of their controllers play them
		folder = "internal/controllers/device" + filepath.Base(folder)
	case folder == "internal/devices/slicemerge":
		folder = "internal/controllers/materialize"
	}
	for module = folder; module != "."; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(tree, module, "go.mod")); err == nil {
			break
		}
	}
	below, err := filepath.Rel(module, folder)
	if err != nil {
		below = folder // both are relative, so there is no error
	}
	return filepath.Join(tree, module), "./" + filepath.ToSlash(below)
}

// found reports whether the tests fail with the bug. A bug that does not compile is an error.
func (m mutant) found(ctx context.Context, tree, dir string) (bool, error) {
	text, err := m.apply(tree)
	if err != nil {
		return false, err
	}
	file, err := filepath.Abs(filepath.Join(tree, m.file))
	if err != nil {
		return false, err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*timeout) // with compiling
	defer cancel()
	module, path := m.packagePath(tree)
	if out, err := goCommand(ctx, module, "build", "-overlay", overlay, path); err != nil {
		return false, fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	_, err = goCommand(ctx, module, "test", "-failfast", "-vet=off", "-timeout", timeout.String(), "-overlay", overlay, path)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return true, nil
	}
	return false, err
}

func goCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	return command.CombinedOutput()
}
