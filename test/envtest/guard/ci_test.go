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

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/tools/doctest"
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
	makeModule(t, filepath.Join(repository, ciModule))
	copyManifests(t, filepath.Join(treeRoot, "examples/admitted"), filepath.Join(repository, "deploy"))
	if len(steps) < 3 {
		t.Fatalf("the workflow has the commands %v, want lint, build and test", steps)
	}
	for _, step := range steps {
		if out, err := runStep(t, repository, step); err != nil {
			t.Fatalf("%s: %v\n%s", step.Name, err, out)
		}
	}
	copyManifests(t, filepath.Join(treeRoot, "examples/denied"), filepath.Join(repository, "deploy"))
	out, err := runStep(t, repository, steps[0])
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
func runStep(t *testing.T, repository string, step workflowStep) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", step.Run)
	command.Dir = filepath.Join(repository, step.WorkingDirectory)
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "RUNNER_TEMP="+t.TempDir(), assets.VersionVariable+"=")
	out, err := command.CombinedOutput()
	return string(out), err
}

// makeModule makes what "go get" and "go mod tidy" would make if our modules were
// published: a go.mod with our requirements, and replacements that lead to this tree.
func makeModule(t *testing.T, folder string) {
	t.Helper()
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours := file.Module.Mod.Path
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(file.AddModuleStmt("example.com/my-driver/" + ciModule))
	check(file.AddRequire(ours, "v0.0.0"))
	for _, replaced := range file.Replace {
		target, err := filepath.Abs(filepath.Join("..", replaced.New.Path))
		check(err)
		check(file.AddReplace(replaced.Old.Path, replaced.Old.Version, target, ""))
	}
	here, err := filepath.Abs("..")
	check(err)
	check(file.AddReplace(ours, "", here, ""))
	data, err = file.Format()
	check(err)
	writeFile(t, filepath.Join(folder, "go.mod"), data)
	sums, err := os.ReadFile("../go.sum")
	check(err)
	writeFile(t, filepath.Join(folder, "go.sum"), sums)
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
