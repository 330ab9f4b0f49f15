package modules

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// TestTags makes a release in a clone: versions, commit, tags. Then an empty module requires each
// module as a module proxy makes it from its tag, without replace.
func TestTags(t *testing.T) {
	clone, proxy := t.TempDir(), t.TempDir()
	local, err := newLocal(root, proxy, "tags")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Remove(); err != nil {
			t.Error(err)
		}
	})
	if got, want := Tags("v1.2.3"), []string{"v1.2.3", "scheduler/v1.2.3", "test/chart/v1.2.3", "test/envtest/v1.2.3"}; !slices.Equal(got, want) {
		t.Fatalf("tags %q, want %q", got, want)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, clone, nil, "git", "clone", "--quiet", absolute, ".")
	files, err := Files(clone)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		name = filepath.Join(clone, name)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = Set(data, local.Version); err != nil {
			t.Fatal(name, err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, clone, nil, "git", "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "--all", "--message=Release")
	for i, tag := range Tags(local.Version) {
		execute(t, clone, nil, "git", "tag", tag)
		publishTag(t, clone, proxy, tag, Released()[i], local.Version)
	}
	for _, dir := range Released() {
		require(t, dir, local)
	}
}

// require has an empty module require that of a folder.
func require(t *testing.T, dir string, local Local) {
	t.Helper()
	site := t.TempDir()
	known(t, site)
	if err := os.WriteFile(filepath.Join(site, "go.mod"), []byte(before(t, dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	execute(t, site, local.Env, "go", "get", At(dir)+"@"+local.Version)
	found := 0
	for line := range strings.Lines(execute(t, site, local.Env, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}{{with .Replace}} => {{.}}{{end}}", "all")) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !ours(name) {
			continue
		}
		if found++; version != local.Version {
			t.Errorf("%s: go get brings %s", At(dir), line)
		}
	}
	if found == 0 {
		t.Errorf("%s: go get brings none of our modules", At(dir))
	}
	if dir == "scheduler" && !testing.Short() { // building kube-scheduler takes minutes with an empty build cache
		program := filepath.Join(site, "scheduler")
		execute(t, site, local.Env, "go", "build", "-o", program, At(dir))
		if out := execute(t, site, local.Env, program, "--help"); !strings.Contains(out, "--sole-scheduler") {
			t.Errorf("scheduler --help: %s", out)
		}
	}
}

// before is the go.mod of a module before it requires ours: docs/library.md has that for the
// scheduler, because kube-scheduler needs the versions of the modules around it.
func before(t *testing.T, dir string) string {
	t.Helper()
	page, err := doctest.Read(filepath.Join(root, "docs/library.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		if block.Options["file"] == dir+"/go.mod" {
			return block.Text
		}
	}
	return "module example.com/site\n\ngo 1.26.0\n"
}

// publishTag writes the module of a tag into the proxy, as a proxy makes it from the repository.
func publishTag(t *testing.T, clone, proxy, tag, dir, version string) {
	t.Helper()
	m := module.Version{Path: At(dir), Version: version}
	subdir := dir
	if dir == "." {
		subdir = ""
	}
	var archive bytes.Buffer
	if err := zip.CreateFromVCS(&archive, m, clone, tag, subdir); err != nil {
		t.Fatal(tag, err)
	}
	mod := execute(t, clone, nil, "git", "show", tag+":"+filepath.ToSlash(filepath.Join(dir, "go.mod")))
	info, err := json.Marshal(struct{ Version string }{version})
	folder := filepath.Join(proxy, m.Path, "@v")
	err = errors.Join(err, os.MkdirAll(folder, 0o755))
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": []byte(mod), version + ".zip": archive.Bytes()} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), data, 0o644))
	}
	if err != nil {
		t.Fatal(tag, err)
	}
}

func execute(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var out, errs bytes.Buffer
	command.Dir, command.Env, command.Stdout, command.Stderr = dir, env, &out, &errs
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, &errs)
	}
	return out.String()
}
