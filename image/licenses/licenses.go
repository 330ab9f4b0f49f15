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
	// Texts are its license files, by name.
	Texts map[string]string
}

// Own is the path of the root module of this repository: programs of its other modules contain
// it, under their own license.
const Own = "github.com/dra-steward/dra-steward"

// Find returns the modules in a program other than its own, with their licenses. It reads
// them in the module cache. A module without a license that it knows is an error.
func Find(ctx context.Context, info *debug.BuildInfo) ([]Module, error) {
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
	var errs []error
	for i := range found {
		m := &found[i]
		errs = append(errs, m.read(folders[m.Path+"@"+m.Version]))
	}
	std := Module{Path: "std", Version: info.GoVersion}
	root, err := goRoot(ctx)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, std.read(root))
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

// surest is the share of a file, in percent, that has to be text of licenses.
const surest = 75

// read looks for license files in the folder of a module.
func (m *Module) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	m.Texts = map[string]string{}
	for _, entry := range entries {
		if !isLicense(entry) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		m.Texts[entry.Name()] = string(text)
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
	slices.Sort(m.IDs)
	if len(m.IDs) == 0 {
		return fmt.Errorf("%s %s: no license found in %s", m.Path, m.Version, dir)
	}
	return nil
}

// isLicense reports whether a file has a license or notices.
func isLicense(entry fs.DirEntry) bool {
	name := strings.ToUpper(entry.Name())
	return entry.Type().IsRegular() && slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"}, func(prefix string) bool {
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
