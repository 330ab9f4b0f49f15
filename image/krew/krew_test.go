package krew_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/image/krew"
	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/tools/build"
)

var stamp = build.Stamp{Version: "v0.1.0", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// write makes archives of a program that prints the name that it was called by.
func write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var platforms []rootfs.Platform
	for _, system := range []string{"linux", "windows"} {
		files := t.TempDir()
		for name, text := range map[string]string{"program": "#!/bin/sh\nbasename $0\n", "bom.json": "{}", "LICENSE": "do what you want", "THIRD-PARTY-LICENSES": "they, too"} {
			if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		platforms = append(platforms, rootfs.Platform{OS: system, Arch: "amd64", Dir: files})
	}
	if err := krew.Write(dir, stamp, platforms); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, names ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(names...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWrite installs as krew does: the manifest has the sum of each archive, and the archive
// has the program under the name that the manifest gives.
func TestWrite(t *testing.T) {
	dir := write(t)
	manifest := read(t, dir, "dra-steward.yaml")
	for _, system := range []string{"linux", "windows"} {
		name := "kubectl-dra_steward_" + system + "_amd64.tar.gz"
		sum := sha256.Sum256([]byte(read(t, dir, name)))
		if want := "/v0.1.0/" + name + "\n      sha256: " + hex.EncodeToString(sum[:]) + "\n"; !strings.Contains(manifest, want) {
			t.Errorf("no %q in\n%s", want, manifest)
		}
	}
	unpacked := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dir, "kubectl-dra_steward_linux_amd64.tar.gz"), "-C", unpacked).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(unpacked, "kubectl-dra_steward")).Output(); err != nil || string(out) != "kubectl-dra_steward\n" {
		t.Errorf("%v: %q", err, out)
	}
	for _, name := range []string{"LICENSE", "THIRD-PARTY-LICENSES", "bom.json"} {
		if read(t, unpacked, name) == "" {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestSameArchives: the archives depend on files and stamp alone.
func TestSameArchives(t *testing.T) {
	a, b := write(t), write(t)
	if read(t, a, "dra-steward.yaml") != read(t, b, "dra-steward.yaml") {
		t.Error("two runs give two manifests")
	}
}
