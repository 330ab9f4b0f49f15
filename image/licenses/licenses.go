// Package licenses finds the licenses of the modules in a program.
package licenses

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A Module is one that a program contains.
type Module struct {
	// Path and Version are those of the code that was compiled; of a replaced module, those of
	// its replacement.
	Path, Version string
	// Sum is that of go.sum.
	Sum string
	// IDs are the SPDX identifiers of its licenses, in order.
	IDs []string
	// Texts are its license files, by path in the module: those of the module, and those of code of others in it that
	// the program contains.
	Texts map[string]string
}

// Own is the path of the root module of this repository: programs of its other modules contain
// it, under their own license.
const Own = "github.com/dra-steward/dra-steward"

// Find returns the modules in a program of the tree other than its own, with their licenses. It reads
// them in the module cache. A module without a license that it knows is an error.
func Find(ctx context.Context, info *debug.BuildInfo, tree string) ([]Module, error) {
	var found []Module
	for _, dep := range info.Deps {
		if dep.Path == Own {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		found = append(found, Module{Path: dep.Path, Version: dep.Version, Sum: dep.Sum})
	}
	folders, err := locate(ctx, found)
	if err != nil {
		return nil, err
	}
	packages, err := linked(ctx, info, tree)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range found {
		m := &found[i]
		errs = append(errs, m.read(folders[m.Path+"@"+m.Version], packages))
	}
	std := Module{Path: "std", Version: info.GoVersion}
	root, err := goRoot(ctx)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, std.read(root, packages))
	}
	return append([]Module{std}, found...), errors.Join(errs...)
}

func goRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// locate returns the folders of modules, by path@version.
func locate(ctx context.Context, modules []Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	empty, err := os.MkdirTemp("", "dra-steward-licenses-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(empty)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = empty, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var one struct{ Path, Version, Dir, Error string }
		switch err := decoder.Decode(&one); {
		case errors.Is(err, io.EOF):
			return folders, nil
		case err != nil:
			return nil, fmt.Errorf("go mod download: %w", err)
		case one.Error != "":
			return nil, fmt.Errorf("go mod download %s@%s: %s", one.Path, one.Version, one.Error)
		}
		folders[one.Path+"@"+one.Version] = one.Dir
	}
}

// linked returns the folders of the packages in a program.
func linked(ctx context.Context, info *debug.BuildInfo, tree string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{.Dir}}", info.Path)
	command.Dir = filepath.Join(tree, strings.TrimPrefix(info.Main.Path, Own))
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	for _, setting := range info.Settings {
		if setting.Key == "GOOS" || setting.Key == "GOARCH" {
			command.Env = append(command.Env, setting.Key+"="+setting.Value)
		}
	}
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// surest is the share of a file, in percent, that has to be text of licenses.
const surest = 75

// boring is a folder of the standard library whose license is that of an object file, which only programs built
// with GOEXPERIMENT=boringcrypto contain.
const boring = "src/crypto/internal/boring"

// read looks for license files in the folder of a module, and in those from there to the packages.
func (m *Module) read(dir string, packages []string) error {
	m.Texts = map[string]string{}
	for _, folder := range between(dir, packages) {
		if folder == filepath.Join(dir, boring) {
			continue
		}
		if err := m.readFolder(dir, folder); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		if folder == dir && len(m.IDs) == 0 {
			return fmt.Errorf("%s %s: no license found in %s", m.Path, m.Version, dir)
		}
	}
	slices.Sort(m.IDs)
	return nil
}

// between returns a folder, and the folders from there to those of the packages that are below it.
func between(dir string, packages []string) []string {
	folders := []string{dir}
	for _, folder := range packages {
		below := strings.HasPrefix(folder, dir+string(filepath.Separator))
		for ; below && !slices.Contains(folders, folder); folder = filepath.Dir(folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// readFolder adds the license files of a folder of the module.
func (m *Module) readFolder(dir, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !isLicense(entry) {
			continue
		}
		file := filepath.Join(folder, entry.Name())
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		m.Texts[filepath.ToSlash(name)] = string(text)
		if strings.HasPrefix(strings.ToUpper(entry.Name()), "PATENTS") {
			continue // a grant beside the license, without an identifier of SPDX
		}
		coverage := licensecheck.Scan(text)
		if coverage.Percent < surest {
			continue
		}
		for _, match := range coverage.Match {
			if !slices.Contains(m.IDs, match.ID) {
				m.IDs = append(m.IDs, match.ID)
			}
		}
	}
	return nil
}

// isLicense reports whether a file has a license or notices.
func isLicense(entry fs.DirEntry) bool {
	name := strings.ToUpper(entry.Name())
	return entry.Type().IsRegular() && filepath.Ext(name) != ".GO" && slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// Text returns the license texts of modules as one file.
func Text(modules []Module) []byte {
	var out bytes.Buffer
	out.WriteString("The program contains the following modules, under these licenses.\n")
	for _, m := range slices.SortedFunc(slices.Values(modules), func(a, b Module) int { return cmp.Compare(a.Path, b.Path) }) {
		fmt.Fprintf(&out, "\n%s\n%s %s: %s\n", strings.Repeat("=", 80), m.Path, m.Version, strings.Join(m.IDs, ", "))
		for _, name := range slices.Sorted(maps.Keys(m.Texts)) {
			fmt.Fprintf(&out, "\n---- %s\n\n%s\n", name, strings.TrimRight(m.Texts[name], "\n"))
		}
	}
	return out.Bytes()
}
