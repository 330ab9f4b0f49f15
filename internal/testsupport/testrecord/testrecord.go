// Package testrecord is what tests share that record their results in test/results.
package testrecord

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Wanted reports whether the results of this run are to be recorded.
func Wanted() bool { return os.Getenv("DRA_STEWARD_RECORD") != "" }

// File is the path of a table of results.
func File(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(git(t, "rev-parse", "--show-toplevel"), "test/results", name)
}

// Commit is what the tree is at, with a + if it has changes. The tables that a run writes are no change of what it measures.
func Commit(t testing.TB) string {
	t.Helper()
	commit := git(t, "rev-parse", "--short=8", "HEAD")
	if git(t, "status", "--porcelain", "--", ":/", ":!/test/results", ":!/docs") != "" {
		commit += "+"
	}
	return commit
}

func git(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
