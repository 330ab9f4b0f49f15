package guard_test

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/tools/doctest"
	"github.com/dra-steward/dra-steward/tools/modules"
)

// treeRoot is the root of the tree, and ciModule the folder of the module that
// docs/ci.md tells the reader to make.
const (
	treeRoot = "../../.."
	ciModule = "test/dra"
)

// A workflow is what we understand of one of GitHub Actions.
type workflow struct {
	Jobs map[string]struct {
		Defaults struct {
			Run struct {
				WorkingDirectory string `json:"working-directory"`
			} `json:"run"`
		} `json:"defaults"`
		Steps []workflowStep `json:"steps"`
	} `json:"jobs"`
}

type workflowStep struct {
	Name             string `json:"name"`
	Run              string `json:"run"`
	WorkingDirectory string `json:"working-directory"`
}

// TestPageForCI follows docs/ci.md in an empty repository: it makes the files of the
// page, puts our examples where the manifests are, and runs the commands of the
// workflow. Then a manifest that is denied must fail the lint.
func TestPageForCI(t *testing.T) {
	page, err := doctest.Read(filepath.Join(treeRoot, "docs/ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir()
	var steps []workflowStep
	for _, block := range page.Blocks {
		path := block.Options["file"]
		if path == "" {
			continue
		}
		writeFile(t, filepath.Join(repository, path), []byte(block.Text))
		if strings.HasPrefix(path, ".github/workflows/") {
			steps = commands(t, block.Text)
		}
	}
	env := strangers(t)
	setUp(t, page, repository, env)
	copyManifests(t, filepath.Join(treeRoot, "examples/admitted"), filepath.Join(repository, "deploy"))
	if len(steps) < 3 {
		t.Fatalf("the workflow has the commands %v, want lint, build and test", steps)
	}
	for _, step := range steps {
		if out, err := runStep(t, repository, env, step); err != nil {
			t.Fatalf("%s: %v\n%s", step.Name, err, out)
		}
	}
	copyManifests(t, filepath.Join(treeRoot, "examples/denied"), filepath.Join(repository, "deploy"))
	out, err := runStep(t, repository, env, steps[0])
	if err == nil || !strings.Contains(out, "::error file=deploy/too-many-tolerations.yaml,line=13,") {
		t.Errorf("%s: %v; want an error with the place of the tolerations:\n%s", steps[0].Name, err, out)
	}
}

// commands returns the steps of the one job of a workflow that run something, each
// with the folder in which it runs.
func commands(t *testing.T, text string) (steps []workflowStep) {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Jobs) != 1 {
		t.Fatalf("jobs %v, want one", slices.Collect(maps.Keys(w.Jobs)))
	}
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			step.WorkingDirectory = cmp.Or(step.WorkingDirectory, job.Defaults.Run.WorkingDirectory)
			if step.Run != "" {
				steps = append(steps, step)
			}
		}
	}
	return steps
}

// runStep runs a step as GitHub does, and returns what it prints. The page is about the
// newest minor, whichever is under test.
func runStep(t *testing.T, repository string, env []string, step workflowStep) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
	command.Dir = filepath.Join(repository, step.WorkingDirectory)
	command.Env = append(slices.Clone(env), "GOFLAGS=-mod=readonly -trimpath", "RUNNER_TEMP="+t.TempDir(), assets.VersionVariable+"=")
	out, err := command.CombinedOutput()
	return string(out), err
}

// strangers returns the environment of a project for which our modules are published.
func strangers(t *testing.T) []string {
	t.Helper()
	local, err := modules.Try(treeRoot, t.TempDir(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Remove(); err != nil {
			t.Error(err)
		}
	})
	return local.Env
}

// setUp makes the module as the page says. It knows our sums beforehand, so that the
// commands do not depend on the checksum database.
func setUp(t *testing.T, page doctest.Page, repository string, env []string) {
	t.Helper()
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(repository, ciModule, "go.sum"), sums)
	index := slices.IndexFunc(page.Blocks, func(b doctest.Block) bool { return b.Language == "sh" })
	if index < 0 {
		t.Fatal("the page has no commands to set the module up")
	}
	for _, script := range []string{page.Blocks[index].Text, "cd " + ciModule + " && go mod tidy"} {
		command := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		command.Dir, command.Env = repository, env
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
}

func copyManifests(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(to, filepath.Base(file)), data)
	}
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
