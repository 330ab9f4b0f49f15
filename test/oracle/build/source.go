package build

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// sourceFolder holds the program that is built for every minor. It is no package of
// this module, which would need k8s.io/kubernetes for it.
const sourceFolder = "testdata/program"

//go:embed testdata/program
var sourceFiles embed.FS

// Module is the path of the main module that a program is built in.
const Module = "oracle"

// WriteSource writes the source of the program into dir, for every minor the same.
func WriteSource(dir string) error {
	return source(func(name string, content []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	})
}

// source yields the files of the program, in a stable order.
func source(file func(name string, content []byte) error) error {
	folder, err := fs.Sub(sourceFiles, sourceFolder)
	if err != nil {
		return err
	}
	return errors.Join(files(folder, "", file), files(wire.Source, "wire/", file))
}

func files(folder fs.FS, prefix string, file func(name string, content []byte) error) error {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(folder, entry.Name())
		if err != nil {
			return err
		}
		if err := file(prefix+entry.Name(), content); err != nil {
			return err
		}
	}
	return nil
}

//go:embed modules
var moduleFiles embed.FS

// release is a Kubernetes version with the module that its program is built from.
type release struct {
	version  string
	mod, sum []byte
}

// Versions lists the Kubernetes versions that there are oracles for, oldest first.
func Versions() []string {
	names, err := fs.Glob(moduleFiles, "modules/*.mod")
	if err != nil {
		return nil // the pattern is a constant
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(filepath.Base(name), ".mod")
	}
	slices.Sort(names) // two digits in every minor
	return names
}

// Minor is the minor of a version: 1.37 of 1.37.0.
func Minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// resolve finds the release of a minor such as 1.37, or of a full version.
func resolve(minor string) (release, error) {
	for _, version := range Versions() {
		if minor != version && minor != Minor(version) {
			continue
		}
		mod, err := moduleFiles.ReadFile("modules/" + version + ".mod")
		if err != nil {
			return release{}, err
		}
		sum, err := moduleFiles.ReadFile("modules/" + version + ".sum")
		return release{version, mod, sum}, err
	}
	return release{}, fmt.Errorf("there is no oracle for Kubernetes %q; choose one of %s or a minor of these",
		minor, strings.Join(Versions(), ", "))
}

// tag is the build tag by which the source chooses what a minor needs.
func (r release) tag() string {
	return "minor" + strings.TrimPrefix(Minor(r.version), "1.")
}
