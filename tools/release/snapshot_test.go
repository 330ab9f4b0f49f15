package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const version = "0.1.0-snapshot"

// TestSnapshot builds a release without publishing it, and uses what it consists of.
func TestSnapshot(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("compiles goreleaser, and dra-steward for six platforms; make test-long runs it")
	}
	commit := strings.TrimSpace(run(t, nil, "git", "rev-parse", "HEAD"))
	env := append(os.Environ(), "VERSION=v"+version, "COMMIT="+commit, "SOURCE_DATE_EPOCH="+strings.TrimSpace(run(t, nil, "git", "show", "-s", "--format=%ct", "HEAD")))
	run(t, env, "make", "--no-print-directory", "snapshot")

	sums := checksums(t)
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			name := fmt.Sprintf("dra-steward_%s_%s_%s", version, system, arch)
			archive, program := name+".tar.gz", "dra-steward"
			if system == "windows" {
				archive, program = name+".zip", "dra-steward.exe"
			}
			files := unpack(t, filepath.Join(tree, "bin/dist", archive))
			wantFiles(t, archive, files, program)
			bill, err := os.ReadFile(filepath.Join(tree, "bin/dist", name+".cdx.json"))
			if err != nil {
				t.Fatal(err)
			}
			wantBill(t, name, bill, files[program])
			for _, listed := range []string{archive, name + ".cdx.json", "kubectl-dra_steward_" + system + "_" + arch + ".tar.gz"} {
				if sums[listed] == "" {
					t.Errorf("checksums.txt lacks %s", listed)
				}
			}
			if system == runtime.GOOS && arch == runtime.GOARCH {
				wantRuns(t, files, commit, env)
				wantPlugin(t, "kubectl-dra_steward_"+system+"_"+arch+".tar.gz", commit)
			}
		}
	}
	if sums["dra-steward.yaml"] == "" {
		t.Error("checksums.txt lacks the manifest of krew")
	}
}

func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Dir, command.Env = tree, env
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// checksums compares each file with its sum, and returns the sums by name.
func checksums(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, "bin/dist/checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Fatalf("checksums.txt: %q", line)
		}
		sums[fields[1]] = fields[0]
		data, err := os.ReadFile(filepath.Join(tree, "bin/dist", fields[1]))
		if errors.Is(err, os.ErrNotExist) {
			data, err = os.ReadFile(filepath.Join(tree, "bin/krew", fields[1]))
		}
		if err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != fields[0] {
			t.Errorf("%s has the sum %s, checksums.txt says %s", fields[1], got, fields[0])
		}
	}
	return sums
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, name string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(name, err)
		}
		for _, f := range archive.File {
			in, err := f.Open()
			if err != nil {
				t.Fatal(name, err)
			}
			if files[f.Name], err = io.ReadAll(in); err != nil {
				t.Fatal(name, err)
			}
		}
		return files
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(name, err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(name, err)
		}
	}
}

func wantFiles(t *testing.T, archive string, files map[string][]byte, program string) {
	t.Helper()
	for name, part := range map[string]string{
		program: "", "LICENSE": "Apache License", "THIRD-PARTY-LICENSES": "k8s.io/apimachinery v", "man/man1/dra-steward.1": ".SH SYNOPSIS",
		"man/man1/dra-steward-lint.1": version, "completions/dra-steward.bash": "__start_dra-steward", "completions/_dra-steward": "#compdef",
		"completions/dra-steward.fish": "complete -c dra-steward", "completions/dra-steward.ps1": "Register-ArgumentCompleter",
	} {
		if len(files[name]) == 0 || !strings.Contains(string(files[name]), part) {
			t.Errorf("%s: %s has %d bytes without %q", archive, name, len(files[name]), part)
		}
	}
}

// wantBill: the bill of materials is of the program in the archive.
func wantBill(t *testing.T, name string, data, program []byte) {
	t.Helper()
	var bill struct {
		Metadata struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Content string }
			}
		}
		Components []struct{ Name string }
	}
	if err := json.Unmarshal(data, &bill); err != nil {
		t.Fatal(name, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(program))
	of := bill.Metadata.Component
	if of.Version != "v"+version || len(of.Hashes) != 1 || of.Hashes[0].Content != sum || len(bill.Components) < 50 {
		t.Errorf("%s: bill of materials of %+v with %d modules, want the program with the sum %s", name, of, len(bill.Components), sum)
	}
}

// wantRuns: the program of this platform is that of the image, and names version and commit. Its
// completions work in bash.
func wantRuns(t *testing.T, files map[string][]byte, commit string, env []string) {
	t.Helper()
	dir := t.TempDir()
	program, completion := filepath.Join(dir, "dra-steward"), filepath.Join(dir, "completion")
	if err := errors.Join(os.WriteFile(program, files["dra-steward"], 0o700), os.WriteFile(completion, files["completions/dra-steward.bash"], 0o600)); err != nil {
		t.Fatal(err)
	}
	if out := run(t, nil, program, "version"); !strings.Contains(out, "dra-steward v"+version+"\ncommit "+commit+"\n") {
		t.Errorf("version: %s", out)
	}
	image := filepath.Join(dir, "image")
	run(t, env, "make", "--no-print-directory", "image-root", "IMAGE_ROOT="+image)
	same, err := os.ReadFile(filepath.Join(image, "program"))
	if err != nil || !bytes.Equal(same, files["dra-steward"]) {
		t.Errorf("the image has another program than the archive: %d and %d bytes, %v", len(same), len(files["dra-steward"]), err)
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		run(t, nil, bash, "-n", completion)
		if out := run(t, nil, bash, "-c", "source "+completion+" && complete -p dra-steward"); !strings.Contains(out, "__start_dra-steward") {
			t.Errorf("complete -p: %s", out)
		}
	}
}

// wantPlugin: the program that krew installs runs, and names version and commit.
func wantPlugin(t *testing.T, archive, commit string) {
	t.Helper()
	files, plugin := unpack(t, filepath.Join(tree, "bin/krew", archive)), filepath.Join(t.TempDir(), "kubectl-dra_steward")
	for name, part := range map[string]string{"kubectl-dra_steward": "", "LICENSE": "Apache License", "THIRD-PARTY-LICENSES": "k8s.io/apimachinery v"} {
		if len(files[name]) == 0 || !strings.Contains(string(files[name]), part) {
			t.Errorf("%s: %s has %d bytes without %q", archive, name, len(files[name]), part)
		}
	}
	wantBill(t, archive, files["bom.json"], files["kubectl-dra_steward"])
	if err := os.WriteFile(plugin, files["kubectl-dra_steward"], 0o700); err != nil {
		t.Fatal(err)
	}
	if out := run(t, nil, plugin, "version"); !strings.Contains(out, "dra-steward v"+version+"\ncommit "+commit+"\n") {
		t.Errorf("%s: version: %s", archive, out)
	}
}
