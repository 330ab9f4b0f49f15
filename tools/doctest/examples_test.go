package doctest_test

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"path/filepath"
	"testing"
)

// lint runs the program on args and returns its exit code and what it prints.
func lint(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, summary bytes.Buffer
	code := cli.Run(t.Context(), append([]string{"lint"}, args...), cmdutil.Streams{Out: &out, Err: &summary})
	if code == cmdutil.ExitFailed {
		t.Fatalf("lint %q: %s", args, &summary)
	}
	return code, out.String()
}

// TestAdmittedExamples finds nothing at all, with and without the site's limits.
func TestAdmittedExamples(t *testing.T) {
	folder := filepath.Join(root, "examples/admitted")
	for _, args := range [][]string{{folder}, {"--config", filepath.Join(root, "examples/site.yaml"), folder}} {
		if code, out := lint(t, args...); code != cmdutil.ExitClean || out != "" {
			t.Errorf("lint %q: exit code %d:\n%s", args, code, out)
		}
	}
}

// TestDeniedExamples finds an error in every single file.
func TestDeniedExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples/denied/*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if code, _ := lint(t, "--config", filepath.Join(root, "examples/site.yaml"), file); code != cmdutil.ExitFindings {
			t.Errorf("%s passes", file)
		}
	}
}
