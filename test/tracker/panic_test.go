package tracker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
)

// taintRules is the folder of a program that runs the tracker of other versions, each with the
// module file in its folder modules. It is no package of this module, which has one version.
const taintRules = "testdata/taintrules"

// TestPanic holds the known fault kubernetes#139651 against the code of the versions around its
// fix: the tracker ends the process if a DeviceTaintRule exists and a ResourceSlice is there, in
// the versions that the table names and with its feature gate only. TestDifferential runs the tracker
// of 1.37.
func TestPanic(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("compiling the clients of five versions of Kubernetes takes minutes; make test-long runs it, as does DRA_STEWARD_LONG=1")
	}
	files, err := filepath.Glob(taintRules + "/modules/*.mod")
	if err != nil || len(files) < 5 {
		t.Fatalf("module files: %v, %v; want those of 0.35.4 and 0.36.0 to 0.36.3", files, err)
	}
	var affected, fixed []string
	for _, file := range files {
		version := strings.TrimSuffix(filepath.Base(file), ".mod")
		program := buildTracker(t, version)
		for _, calm := range [][]string{{}, {"-rule"}, {"-gate"}} {
			if output, panics := runTracker(t, program, calm...); panics || output != "taints: 0\n" {
				t.Errorf("%s %v: %s", version, calm, output)
			}
		}
		output, panics := runTracker(t, program, "-rule", "-gate")
		switch {
		case !panics && output != "taints: 1\n":
			t.Errorf("%s: %s; want the taint of the rule", version, output)
		case panics:
			affected = append(affected, version)
		default:
			fixed = append(fixed, version)
		}
		release := "v1." + strings.TrimPrefix(version, "0.")
		known := false
		for _, f := range faults.Of(release, faults.RuleExists) {
			known = known || f.Reference == "kubernetes#139651" && f.Gate == "DRADeviceTaintRules"
		}
		if panics != known {
			t.Errorf("%s: panics is %t, the table of faults says %t", release, panics, known)
		}
	}
	if len(affected) == 0 || len(fixed) == 0 {
		t.Errorf("it panics in %v and not in %v: want versions of both", affected, fixed)
	}
}

// buildTracker compiles the program with a version of Kubernetes' modules.
func buildTracker(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	minor := strings.Split(version, ".")[1]
	rules := "rules_" + minor + ".go"
	for from, to := range map[string]string{"main.go": "main.go", rules: rules, "modules/" + version + ".mod": "go.mod", "modules/" + version + ".sum": "go.sum"} {
		content, err := os.ReadFile(filepath.Join(taintRules, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-tags", "minor"+minor, "-o", "program", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", version, err, output)
	}
	return filepath.Join(dir, "program")
}

// runTracker runs the program. It panics if the assertion about the type of a rule ends it.
func runTracker(t *testing.T, program string, args ...string) (output string, panics bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		t.Fatal(err)
	}
	const goPanics = 2
	return string(out), failed && exit.ExitCode() == goPanics && strings.Contains(string(out), "*v1beta2.DeviceTaintRule, not *v1alpha3.DeviceTaintRule")
}
