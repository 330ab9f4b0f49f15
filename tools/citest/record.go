package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// recordVariable makes a run write its results into the tree, for the tables of the pages.
const recordVariable = "DRA_STEWARD_RECORD"

// A recorder writes results into the tree. Nil records nothing.
type recorder struct {
	parts, features *table
	// known are the features of which results are recorded.
	known  []feature
	commit string
	load   func() string
}

// newRecorder reads what was recorded before; it returns nil unless the environment asks for it.
func newRecorder(ctx context.Context) (*recorder, error) {
	if os.Getenv(recordVariable) == "" {
		return nil, nil
	}
	commit, err := commitHere(ctx)
	if err != nil {
		return nil, err
	}
	return openRecorder(".", commit)
}

// openRecorder reads the tables of a tree.
func openRecorder(root, commit string) (*recorder, error) {
	r := &recorder{commit: commit, load: loadAverage}
	var err error
	if r.parts, err = readTable(root+"/test/results/parts.tsv", "part", "minutes", "date", "commit", "load", "result"); err != nil {
		return nil, err
	}
	if r.features, err = readTable(root+"/test/results/features.tsv", "feature", "minor", "date", "commit", "passed", "failed", "skipped"); err != nil {
		return nil, err
	}
	r.known, err = readFeatures(root + "/test/features.tsv")
	return r, err
}

// commitHere is the short name of the commit, with a plus sign if the tree has changes.
func commitHere(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("recording needs the commit of the tree: %w", err)
	}
	changed, err := changedHere(ctx)
	if err != nil {
		return "", err
	}
	if changed {
		return strings.TrimSpace(string(commit)) + "+", nil
	}
	return strings.TrimSpace(string(commit)), nil
}

// changedHere reports whether the tree differs from its commit. The tables that a run writes are no
// change of what it tests.
func changedHere(ctx context.Context) (bool, error) {
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ".", ":!test/results", ":!docs/compatibility.md").Output()
	return len(changes) > 0, err
}

// loadAverage is that of the last five minutes; empty where the system has none.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 1 {
		return fields[1]
	}
	return ""
}

// part records how a part of the long suite ended, and the features that it tested.
func (r *recorder) part(s step, result partResult, tests *Results) error {
	if r == nil {
		return nil
	}
	verdict := "passed"
	if !result.Passed {
		verdict = "failed"
	}
	r.parts.replace(1, s.name, fmt.Sprintf("%.0f", result.Minutes), result.At.Format(time.DateOnly), r.commit, r.load(), verdict)
	if err := r.parts.write(); err != nil {
		return err
	}
	return r.tested(s.minor(), result.At, tests)
}

// tested records the results of the features whose tests ran, on a minor unless their names have another one.
func (r *recorder) tested(minor string, at time.Time, tests *Results) error {
	if r == nil {
		return nil
	}
	for _, f := range r.known {
		for _, of := range append(slices.Clone(olderMinors), newestMinor) {
			if passed, failed, skipped := f.count(tests.outcomes, minor, of); passed+failed > 0 {
				r.features.replace(2, f.name, of, at.Format(time.DateOnly), r.commit, fmt.Sprint(passed), fmt.Sprint(failed), fmt.Sprint(skipped))
			}
		}
	}
	return r.features.write()
}

// minor is the Kubernetes minor that a step tests: that of the kubelet or of the control plane.
func (s step) minor() string {
	for _, variable := range s.env {
		name, minor, _ := strings.Cut(variable, "=")
		if name == "DRA_STEWARD_KUBERNETES" || name == kubeletVariable {
			return minor
		}
	}
	return newestMinor
}
