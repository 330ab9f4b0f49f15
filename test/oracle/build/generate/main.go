// Command generate writes the module files that the oracle of a Kubernetes version
// is built with: modules/<version>.mod and .sum. Run it in the module's folder:
//
//	go run ./build/generate 1.37.0
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/dra-steward/dra-steward/test/oracle/build"
)

const (
	kubernetes = "k8s.io/kubernetes"
	folder     = "build/modules"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "Usage: generate version...")
		os.Exit(2)
	}
	for _, version := range os.Args[1:] {
		if err := generate(strings.TrimPrefix(version, "v")); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", version, err)
			os.Exit(1)
		}
	}
}

func generate(version string) error {
	dir, err := os.MkdirTemp("", "generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build.WriteSource(dir); err != nil {
		return err
	}
	module, err := module(dir, version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644); err != nil {
		return err
	}
	if _, err := goCommand(dir, "mod", "tidy"); err != nil {
		return err
	}
	for _, extension := range []string{".mod", ".sum"} {
		content, err := os.ReadFile(filepath.Join(dir, "go"+extension))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, version+extension), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// module replaces the staging modules, which k8s.io/kubernetes takes from its own
// tree, by their releases: 1.37.0 goes with 0.37.0.
func module(dir, version string) (string, error) {
	upstream, err := upstreamModule(dir, kubernetes+"@v"+version)
	if err != nil {
		return "", err
	}
	var m strings.Builder
	fmt.Fprintf(&m, "module %s\n\ngo %s\n\n", build.Module, upstream.Go.Version)
	for _, setting := range upstream.Godebug {
		fmt.Fprintf(&m, "godebug %s=%s\n\n", setting.Key, setting.Value)
	}
	fmt.Fprintf(&m, "require %s v%s\n\nreplace (\n", kubernetes, version)
	for _, r := range upstream.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/src/") {
			fmt.Fprintf(&m, "\t%s => %s v0.%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(version, "1."))
		}
	}
	m.WriteString(")\n")
	return m.String(), nil
}

// upstreamModule downloads a module and parses its go.mod.
func upstreamModule(dir, module string) (*modfile.File, error) {
	out, err := goCommand(dir, "mod", "download", "-json", module)
	if err != nil {
		return nil, err
	}
	var download struct{ GoMod string }
	if err := json.Unmarshal(out, &download); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(download.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(download.GoMod, content, nil)
}

func goCommand(dir string, args ...string) ([]byte, error) {
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
