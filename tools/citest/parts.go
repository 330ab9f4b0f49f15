package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A partResult is how a part of the long suite ended.
type partResult struct {
	Passed  bool      `json:"passed"`
	Minutes float64   `json:"minutes"`
	At      time.Time `json:"at"`
}

// kept are the results of the parts for one commit. A run that was interrupted goes on with the
// first part that has not passed.
type kept struct {
	// file is empty for a tree with changes: its results are kept nowhere.
	file   string
	Commit string                `json:"commit"`
	Parts  map[string]partResult `json:"parts"`
}

// readKept reads the results of a commit. Those of another commit do not count.
func readKept(file, commit string) (*kept, error) {
	k := &kept{file: file, Commit: commit, Parts: map[string]partResult{}}
	if file == "" {
		return k, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	var stored kept
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("%s: %w; delete the file to run all parts", file, err)
	}
	if stored.Commit == commit && stored.Parts != nil {
		k.Parts = stored.Parts
	}
	return k, nil
}

func (k *kept) write() error {
	if k.file == "" {
		return nil
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(k.file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(k.file, append(data, '\n'), 0o644)
}

// keptHere returns the results of the commit of this tree.
func keptHere(ctx context.Context) (*kept, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return readKept("", "")
	}
	if changed, err := changedHere(ctx); err != nil || changed {
		return readKept("", "")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return readKept(filepath.Join(cache, "dra-steward", "test-long.json"), strings.TrimSpace(string(commit)))
}

// writeParts writes the names of the parts, of which the workflow makes a job each.
func writeParts(root string, out io.Writer) error {
	parts, err := suite("long", root)
	if err != nil {
		return err
	}
	names := []string{}
	for _, part := range parts {
		names = append(names, part.name)
	}
	return json.NewEncoder(out).Encode(names)
}

// runParts runs the parts whose names match, or those that have not passed, and prints a table
// of all. newResults makes the report of one part.
func runParts(ctx context.Context, parts []step, only string, k *kept, record *recorder, out io.Writer, newResults func() *Results) (failed bool, _ error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("PART: %w", err)
	}
	ran := 0
	for _, part := range parts {
		if !match.MatchString(part.name) {
			continue
		}
		ran++
		if before := k.Parts[part.name]; only == "" && before.Passed {
			fmt.Fprintf(out, "== %s: has passed at this commit on %s\n", part.name, before.At.Format(time.DateTime))
			continue
		}
		if ctx.Err() != nil {
			fmt.Fprintln(out, "citest: interrupted; the next run goes on here")
			failed = true
			break
		}
		report, begin := newResults(), time.Now()
		runAll(ctx, []step{part}, out, report)
		if part.tests() && ctx.Err() == nil {
			report.wantPassed(part.name)
		}
		report.Print(out, time.Since(begin))
		failed = failed || report.Failed()
		result := partResult{Passed: !report.Failed() && ctx.Err() == nil, Minutes: time.Since(begin).Minutes(), At: begin.UTC().Truncate(time.Second)}
		k.Parts[part.name] = result
		if err := errors.Join(k.write(), record.part(part, result, report)); err != nil {
			return true, err
		}
	}
	if ran == 0 {
		return true, fmt.Errorf("PART %q: no part has that name", only)
	}
	k.table(parts, out)
	return failed, nil
}

// table prints the parts in the form of test/results/README.md.
func (k *kept) table(parts []step, out io.Writer) {
	fmt.Fprint(out, "\n| part | minutes | date | result |\n| --- | --- | --- | --- |\n")
	for _, part := range parts {
		one, ran := k.Parts[part.name]
		switch {
		case !ran:
			fmt.Fprintf(out, "| %s | | | not run |\n", part.name)
		case one.Passed:
			fmt.Fprintf(out, "| %s | %.0f | %s | passed |\n", part.name, one.Minutes, one.At.Format(time.DateOnly))
		default:
			fmt.Fprintf(out, "| %s | %.0f | %s | failed |\n", part.name, one.Minutes, one.At.Format(time.DateOnly))
		}
	}
}
