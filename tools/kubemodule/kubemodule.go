// Package kubemodule writes the module files with which the go command builds programs
// of a release of Kubernetes, or of etcd, from the module proxy.
package kubemodule

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// Path is Kubernetes' own module.
const Path = "k8s.io/kubernetes"

// A Module is what a module file says of the module that it is for.
type Module struct {
	// Path of the module; nothing needs to import it.
	Path string
	// Tools are the packages that it builds, which keeps what they need in its go.sum.
	// A module with code of its own needs none.
	Tools []string
}

// Kubernetes returns the module file of a module that builds from Kubernetes of the
// version, such as 1.37.0. It replaces the staging modules, which Kubernetes takes from
// its own tree, by their releases: 1.37.0 goes with 0.37.0.
func (m Module) Kubernetes(version string) (string, error) {
	text, upstream, err := m.on(Path, version)
	if err != nil {
		return "", err
	}
	text.WriteString("\nreplace (\n")
	for _, r := range upstream.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/src/") {
			fmt.Fprintf(text, "\t%s => %s v0.%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(version, "1."))
		}
	}
	text.WriteString(")\n")
	return text.String(), nil
}

// On returns the module file of a module that builds from another one that replaces
// nothing, such as etcd's server.
func (m Module) On(path, version string) (string, error) {
	text, _, err := m.on(path, version)
	if err != nil {
		return "", err
	}
	return text.String(), nil
}

// on begins a module file with what that of another module says of Go.
func (m Module) on(path, version string) (*strings.Builder, *modfile.File, error) {
	upstream, err := read(path + "@v" + version)
	if err != nil {
		return nil, nil, err
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "module %s\n\ngo %s\n\n", m.Path, upstream.Go.Version)
	for _, setting := range upstream.Godebug {
		fmt.Fprintf(text, "godebug %s=%s\n\n", setting.Key, setting.Value)
	}
	switch len(m.Tools) {
	case 0:
	case 1:
		fmt.Fprintf(text, "tool %s\n\n", m.Tools[0])
	default:
		fmt.Fprintf(text, "tool (\n\t%s\n)\n\n", strings.Join(m.Tools, "\n\t"))
	}
	fmt.Fprintf(text, "require %s v%s\n", path, version)
	return text, upstream, nil
}

// Write completes a module file for the code in the folder, which may be empty, and
// writes it to target.mod, and its sums to target.sum.
func Write(dir, file, target string) error {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(file), 0o644); err != nil {
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
		if err := os.WriteFile(target+extension, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read downloads a module and parses its go.mod.
func read(module string) (*modfile.File, error) {
	out, err := goCommand(os.TempDir(), "mod", "download", "-json", module)
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
