package licenses

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestFind: the licenses of a module are its own and those of code of others in it.
func TestFind(t *testing.T) {
	const module, tree = "k8s.io/apimachinery", "../.."
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module)
	command.Dir = tree
	version, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	info := &debug.BuildInfo{Path: Own + "/cmd/dra-steward", Main: debug.Module{Path: Own},
		Deps:     []*debug.Module{{Path: Own}, {Path: module, Version: strings.TrimSpace(string(version))}},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}}
	modules, err := Find(t.Context(), info, tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 2 || modules[0].Path != "std" || modules[1].Path != module {
		t.Fatalf("modules %+v", modules)
	}
	for i, want := range [][]string{{"BSD-3-Clause"}, {"Apache-2.0", "BSD-3-Clause"}} {
		if !slices.Equal(modules[i].IDs, want) {
			t.Errorf("%s has the licenses %q, want %q", modules[i].Path, modules[i].IDs, want)
		}
	}
	for i, file := range []string{"src/vendor/golang.org/x/net/LICENSE", "third_party/forked/golang/LICENSE"} {
		for _, name := range []string{"LICENSE", file} {
			if !strings.Contains(string(Text(modules[i:i+1])), "\n---- "+name+"\n") {
				t.Errorf("%s lacks %s: %q", modules[i].Path, name, slices.Sorted(maps.Keys(modules[i].Texts)))
			}
		}
	}
}

// TestRead: licenses of code that the program does not contain are left out.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LICENSE", "a/LICENSE.txt", "a/license.go", "a/b/NOTICE", "a/other/LICENSE", "other/LICENSE"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var m Module
	if err := m.read(dir, []string{filepath.Join(dir, "a/b"), dir + "-of-another/a", filepath.Join(dir, "a"), dir}); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(m.Texts)), []string{"LICENSE", "a/LICENSE.txt", "a/b/NOTICE"}; !slices.Equal(got, want) {
		t.Errorf("license files %q, want %q", got, want)
	}
	if !slices.Equal(m.IDs, []string{"Apache-2.0"}) {
		t.Errorf("licenses %q", m.IDs)
	}
	if err := os.Remove(filepath.Join(dir, "LICENSE")); err != nil {
		t.Fatal(err)
	}
	if err := (&Module{Path: "m"}).read(dir, []string{filepath.Join(dir, "a")}); err == nil || !strings.Contains(err.Error(), "no license found") {
		t.Errorf("a module with the license of others only: %v", err)
	}
}
