package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const answers = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise of a passed test\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: no disk here\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`

func TestReport(t *testing.T) {
	failing := strings.NewReplacer(`"Action":"pass"`, `"Action":"fail"`, `ok  \tp`, `FAIL\tp`).Replace(answers)
	for name, tt := range map[string]struct {
		strict bool
		skips  string
		input  string
		failed bool
		want   []string
	}{
		"skips are fine at home":  {input: answers, want: []string{"no disk here", "ok  \tp\t0.1s", "1 passed, 0 failed, 1 skipped"}},
		"skips fail in CI":        {input: answers, strict: true, failed: true, want: []string{"NOT LISTED"}},
		"a listed skip":           {input: answers, strict: true, skips: "p TestB there is no disk", want: []string{"listed: there is no disk"}},
		"a listed skip elsewhere": {input: answers, strict: true, skips: "q TestB there is no disk", failed: true, want: []string{"NOT LISTED"}},
		"a listed skip by half":   {input: answers, strict: true, skips: "p Test there is no disk", failed: true, want: []string{"NOT LISTED"}},
		"failed":                  {input: failing, failed: true, want: []string{"noise of a passed test", "FAIL\tp", "0 passed, 1 failed, 1 skipped"}},
		"what a failed test said": {failed: true, want: []string{"== failed\np TestA\n  a_test.go:7: no such device\n"},
			input: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}` + "\n" +
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no such device\n"}` + "\n" +
				`{"Action":"output","Package":"p","Test":"TestA","Output":"a line of a program\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}`},
		"the slowest tests": {want: []string{"== slowest tests\n    12.5s  p TestB\n     2.0s  p TestA\n3 passed"},
			input: `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestB/part","Elapsed":12}` + "\n" +
				`{"Action":"pass","Package":"p","Test":"TestB","Elapsed":12.5}` + "\n"},
		"does not build": {failed: true, want: []string{"no such thing", "0 passed, 1 failed"},
			input: `{"ImportPath":"p","Action":"build-output","Output":"no such thing\n"}` + "\n" + `{"Action":"fail","Package":"p"}`},
		"out of time": {failed: true, want: []string{"panic: test timed out", "0 passed, 1 failed"},
			input: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}` + "\n" + `{"Action":"fail","Package":"p"}`},
		"a suite skipped whole": {skips: "p TestA it takes long", want: []string{"== not proven\np: none of its tests ran, 1 were skipped, the first one is TestA: no reason given (listed: it takes long)\n0 passed, 0 failed, 1 skipped"},
			input: `{"Action":"skip","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p"}`},
		"what the machine lacks":          {input: answers, skips: "p TestB needs a disk", want: []string{"== not proven\np TestB: needs a disk\n1 passed, 0 failed, 1 skipped"}},
		"a step that could not check":     {input: "prose: not checked: no compiler\n", want: []string{"== not proven\nprose: not checked: no compiler\n0 passed"}},
		"a failed suite is not one of it": {input: failing, failed: true, want: []string{"p TestA\n0 passed"}},
		"the time of packages": {want: []string{"  20.0    5.0    3.0    0.0   12.5    7.5  p\n"},
			input: `{"Time":"2026-01-01T00:00:00Z","Action":"start","Package":"p"}` + "\n" + `{"Time":"2026-01-01T00:00:05Z","Action":"run","Package":"p","Test":"TestA"}` + "\n" +
				`{"Time":"2026-01-01T00:00:17Z","Action":"pass","Package":"p","Test":"TestA","Elapsed":12}` + "\n" +
				`{"Time":"2026-01-01T00:00:19Z","Action":"output","Package":"p","Output":"citest: seconds of a processor: 12.50\n"}` + "\n" +
				`{"Time":"2026-01-01T00:00:20Z","Action":"pass","Package":"p","Elapsed":20}` + "\n"},
		"plain lines": {input: "go: cannot find module\n", want: []string{"go: cannot find module"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "skips.txt")
			if err := os.WriteFile(file, []byte("# comment\n\n"+tt.skips+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			allowed, err := readSkips(file)
			if err != nil {
				t.Fatal(err)
			}
			r := &Results{Strict: tt.strict, Allowed: allowed}
			var out strings.Builder
			r.read(strings.NewReader(tt.input), &out, true)
			r.Print(&out, time.Minute)
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
			if r.Failed() != tt.failed {
				t.Errorf("failed is %v, want %v", r.Failed(), tt.failed)
			}
		})
	}
}

func TestBadListOfSkips(t *testing.T) {
	for text, want := range map[string]string{"p TestB": "skips.txt:1: want", "\np ( reason": "skips.txt:2: error parsing"} {
		file := filepath.Join(t.TempDir(), "skips.txt")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readSkips(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestSteps(t *testing.T) {
	var out strings.Builder
	r := &Results{}
	for _, tt := range []struct {
		step step
		ok   bool
	}{
		{step{name: "true", dir: ".", args: []string{"go", "version"}}, true},
		{step{name: "false", dir: ".", args: []string{"go", "no-such-command"}}, false},
		{step{name: "absent", dir: ".", args: []string{"./no-such-program"}}, false},
		{step{name: "silent", dir: ".", args: []string{"go", "version"}, silent: true}, false},
	} {
		err := tt.step.run(t.Context(), &out, r)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.step.name, err)
		}
		r.step(tt.step.name, time.Second, err)
	}
	if !r.Failed() {
		t.Error("a failed step must fail the run")
	}
}

// TestMeasured: the summary says what the programs of the tests used, and how long it took to link them, also of one
// that fails.
func TestMeasured(t *testing.T) {
	citest := filepath.Join(t.TempDir(), "citest")
	if out, err := exec.Command("go", "build", "-o", citest, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for program, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 2} {
		out, err := exec.Command(citest, execCommand, "sh", "-c", program).CombinedOutput()
		exit := &exec.ExitError{}
		if got := errors.As(err, &exit); got != (code != 0) || got && exit.ExitCode() != code || !strings.HasPrefix(string(out), usedPrefix) {
			t.Errorf("%s: %v, want the exit code %d and the time of a processor:\n%s", program, err, code, out)
		}
	}
	var out strings.Builder
	r := &Results{Timer: citest + " " + execCommand}
	s := step{name: "tests", dir: "../../internal/testsupport/freeport", args: []string{"go", "test", "-count=1", "-vet=off", "-json", "."}}
	err := s.run(t.Context(), &out, r)
	r.step(s.name, time.Second, err)
	p := r.of("github.com/dra-steward/dra-steward/internal/testsupport/freeport")
	if err != nil || p.passed == 0 || p.link == 0 || p.all() == 0 {
		t.Errorf("%v, %+v:\n%s", err, p, &out)
	}
	if want := "s of a processor"; !strings.Contains(strings.Join(r.steps, "\n"), want) {
		t.Errorf("no step has %q: %q", want, r.steps)
	}
}

// TestParallel: a step that runs at the same time as others counts as any other, and its
// output stays in one piece.
func TestParallel(t *testing.T) {
	script := func(name, text string, parallel bool) step {
		return step{name: name, dir: ".", parallel: parallel, args: []string{"sh", "-c", text}}
	}
	started := filepath.Join(t.TempDir(), "started")
	waits := fmt.Sprintf("until test -e %s; do sleep 0.01; done", started)
	var out strings.Builder
	r := &Results{}
	runAll(t.Context(), []step{
		script("first", "echo one; "+waits+"; echo two; exit 1", true),
		script("second", "echo three; touch "+started, false),
	}, &out, r)
	if !strings.Contains(out.String(), "one\ntwo\n") || strings.Index(out.String(), "three") > strings.Index(out.String(), "one") {
		t.Errorf("the output is mixed:\n%s", &out)
	}
	if !r.Failed() || len(r.steps) != 2 {
		t.Errorf("steps are %q", r.steps)
	}
	if got := inOrder([]string{".", "image", "test/envtest", "test/node", "test/tracker"}); !slices.Equal(got, []string{".", "test/envtest", "test/node", "image", "test/tracker"}) {
		t.Errorf("the order is %q", got)
	}
}

func TestSuites(t *testing.T) {
	modules, err := findModules("../..")
	if err != nil || modules[0] != "../.." || !slices.Contains(modules, "../../test/chart") {
		t.Errorf("modules are %v, %v, want the root first and all others", modules, err)
	}
	steps := long([]string{".", "test/envtest"})
	if got := steps[0].String(); got != "cd test/envtest && DRA_STEWARD_KUBERNETES=1.36 go test -count=1 -vet=off -p=5 -timeout=60m ./installed ./drain ./release ./guard ./..." {
		t.Errorf("the first long step is %s", got)
	}
	if want := "cd test/envtest && DRA_STEWARD_CAMPAIGN=10m go test -count=1 -timeout=60m ./hostile"; !slices.ContainsFunc(steps, func(s step) bool { return s.String() == want }) {
		t.Errorf("no long step is %q", want)
	}
	if want := "cd test/envtest && DRA_STEWARD_CAMPAIGN=10m go test -count=1 -timeout=60m -run=^TestThresholds$ ./guard"; !slices.ContainsFunc(steps, func(s step) bool { return s.String() == want }) {
		t.Errorf("no long step is %q", want)
	}
	if want := "cd test/envtest && DRA_STEWARD_CAMPAIGN=50m go test -count=1 -timeout=60m ./eviction/campaign"; !slices.ContainsFunc(steps, func(s step) bool { return s.String() == want }) {
		t.Errorf("no long step is %q", want)
	}
	if want := "cd test/envtest && DRA_STEWARD_CAMPAIGN=50m go test -count=1 -timeout=60m ./materialize/campaign"; !slices.ContainsFunc(steps, func(s step) bool { return s.String() == want }) {
		t.Errorf("no long step is %q", want)
	}
	want := "cd test/schedulerperf && go test -count=1 -timeout=60m -tags=schedulerperf -run=^TestByTurns$/^SchedulingWithResourceClaimTemplate$/^full_500nodes$ ."
	performance, err := performanceSteps("../..", []string{schedulerPerf})
	if err != nil || !slices.ContainsFunc(performance, func(s step) bool { return s.String() == want && s.ownSettings }) {
		t.Errorf("no long step is %q, %v", want, err)
	}
	if _, err := suite("everything", "../.."); err == nil {
		t.Error("an unknown suite must be refused")
	}
}

// TestLintChecksWords: every suite that lints runs vale with the words of the glossary.
func TestLintChecksWords(t *testing.T) {
	modules, err := findModules("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, module := range modules {
		modules[i] = filepath.ToSlash(filepath.Join(".", strings.TrimPrefix(module, "../../")))
	}
	want := "cd tools/prose && go run . ../.."
	if !slices.ContainsFunc(lintSteps(modules, "staticcheck"), func(s step) bool { return s.String() == want }) {
		t.Errorf("lint has no step %q", want)
	}
}

// TestTableOfModules: test/results/README.md has a row with times for each module.
func TestTableOfModules(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("test/results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := findModules(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		if !strings.Contains(string(page), "\n| "+module+" | ") {
			t.Errorf("test/results/README.md, How long the steps take: no row for %s", module)
		}
	}
}
