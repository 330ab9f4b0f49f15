package modules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

const root = "../.."

// TestVersions fails for a go.mod that requires a module of this tree in another version
// than the chart's: as soon as that version is tagged, a project could not require it.
func TestVersions(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "charts/dra-steward/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != chart.AppVersion {
		t.Errorf("Chart.yaml has the version %s and the appVersion %s, want one for both", chart.Version, chart.AppVersion)
	}
	files, err := Files(root)
	if err != nil || len(files) < 8 {
		t.Fatalf("go.mod files %v, %v; want those of the tree", files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Set(data, "v"+chart.AppVersion)
		if err != nil {
			t.Fatal(name, err)
		}
		if !bytes.Equal(data, want) {
			t.Errorf("%s requires a module of this tree in another version than v%s: run `go generate ./tools/modules`", name, chart.AppVersion)
		}
	}
}

// TestPage follows docs/library.md in empty folders, with our modules from a module proxy.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set: this test builds kube-scheduler, which takes minutes with an empty build cache; make test runs it")
	}
	page, err := doctest.Read(filepath.Join(root, "docs/library.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir, printed := t.TempDir(), map[string]string{}
	local, err := Try(root, t.TempDir(), "library")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Remove(); err != nil {
			t.Error(err)
		}
	})
	ran := 0
	for _, block := range page.Blocks {
		if path := block.Options["file"]; path != "" {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(block.Text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if in := block.Options["in"]; in != "" {
			known(t, filepath.Join(dir, in))
			command := exec.CommandContext(t.Context(), "sh", "-e", "-c", block.Text)
			command.Dir, command.Env = filepath.Join(dir, in), local.Env
			var out, errs bytes.Buffer
			command.Stdout, command.Stderr = &out, &errs
			if err := command.Run(); err != nil {
				t.Fatalf("%s:%d: %v\n%s%s", page.Name, block.Line, err, &out, &errs)
			}
			printed[in] = out.String()
			ran++
		}
		if of := block.Options["printed"]; of != "" && printed[of] != block.Text {
			t.Errorf("%s:%d: the commands in %s print\n%s", page.Name, block.Line, of, printed[of])
		}
	}
	if ran < 2 {
		t.Errorf("%d blocks with commands, want two", ran)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "scheduler/dra-steward-scheduler"), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--sole-scheduler") {
		t.Errorf("dra-steward-scheduler --help: %v\n%s", err, out)
	}
}

// known gives a new module the sums of ours, so that the commands do not depend on the
// checksum database.
func known(t *testing.T, dir string) {
	t.Helper()
	var all []byte
	for _, of := range Released() {
		data, err := os.ReadFile(filepath.Join(root, of, "go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), all, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDependabot fails for a module that no update is looked for.
func TestDependabot(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, update := range config.Updates {
		if update.Ecosystem == "gomod" {
			got = append(got, update.Directories...)
		}
	}
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Glob(filepath.Join(root, "test/node/testdata/*/go.mod"))
	if err != nil || len(tools) == 0 {
		t.Fatalf("modules of tools: %v %v", tools, err)
	}
	var want []string
	for _, name := range files {
		want = append(want, filepath.Join("/", filepath.Dir(name)))
	}
	for _, name := range tools {
		relative, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, filepath.Join("/", filepath.Dir(relative)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf(".github/dependabot.yml has the folders\n%q\nthe modules are in\n%q", got, want)
	}
}
