// Package modules knows which modules of this tree are tagged for each release, and
// publishes them in a folder that the go command reads as a module proxy.
package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

//go:generate go run ./set ../..

// Path is the path of the module at the root. The others are below it.
const Path = "github.com/dra-steward/dra-steward"

// Released returns the folders of the modules that each release tags. Other projects can
// require them. The other modules of the tree only test it.
func Released() []string { return []string{".", "scheduler", "test/chart", "test/envtest"} }

// Tags returns the tags of a release: one for each module that it tags.
func Tags(version string) []string {
	var tags []string
	for _, dir := range Released() {
		tags = append(tags, path.Join(dir, version))
	}
	return tags
}

// At returns the path of the module in a folder of the tree.
func At(dir string) string { return path.Join(Path, dir) }

// Set returns a go.mod in which every module of this tree is required in the version.
func Set(data []byte, version string) ([]byte, error) {
	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range file.Require {
		if ours(r.Mod.Path) && r.Mod.Version != version {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	return file.Format()
}

func ours(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Files returns the go.mod files of the tree, relative to its root.
func Files(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			relative, err := filepath.Rel(root, name)
			found = append(found, relative)
			return err
		}
		return nil
	})
	return found, err
}

// Publish writes the released modules of the tree into proxy, each in the version. A
// URL file://proxy in GOPROXY then leads to them.
func Publish(root, proxy, version string) error {
	for _, dir := range Released() {
		if err := publish(filepath.Join(root, dir), proxy, module.Version{Path: At(dir), Version: version}); err != nil {
			return fmt.Errorf("publish %s: %w", At(dir), err)
		}
	}
	return nil
}

// A Local release is published in a folder of this machine only.
type Local struct {
	// Version is a pre-release of 0.0.0. It has the hash of what is published, so that what
	// the go command keeps about it stays right.
	Version string
	// Env is the environment in which the go command finds the modules as `@latest`.
	Env []string
	// cache is the go command's module cache.
	cache string
}

// Try publishes the modules of the tree at root below proxy, for a test of the name.
func Try(root, proxy, name string) (Local, error) {
	l, err := newLocal(root, proxy, name)
	if err != nil {
		return Local{}, err
	}
	return l, Publish(root, proxy, l.Version)
}

func newLocal(root, proxy, name string) (Local, error) {
	hash, err := hash(root)
	if err != nil {
		return Local{}, err
	}
	l := Local{Version: "v0.0.0-" + name + "." + hash}
	var old, unchecked string
	for name, value := range map[string]*string{"GOMODCACHE": &l.cache, "GOPROXY": &old, "GONOSUMDB": &unchecked} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			return Local{}, fmt.Errorf("go env %s: %w", name, err)
		}
		*value = strings.TrimSpace(string(out))
	}
	l.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=file://"+filepath.ToSlash(proxy)+","+old,
		"GONOSUMDB="+strings.TrimPrefix(unchecked+","+Path, ","))
	return l, nil
}

// hash is of all files that are published.
func hash(root string) (string, error) {
	sum := sha256.New()
	for _, dir := range Released() {
		files, err := content(filepath.Join(root, dir), nil)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			data, err := os.ReadFile(f.(file).name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n", dir, f.Path(), len(data))
			sum.Write(data)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

func publish(dir, proxy string, m module.Version) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if data, err = Set(data, m.Version); err != nil {
		return err
	}
	info, err := json.Marshal(struct{ Version string }{m.Version})
	if err != nil {
		return err
	}
	files, err := content(dir, data)
	if err != nil {
		return err
	}
	archive := &bytes.Buffer{}
	if err := zip.Create(archive, m, files); err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": data, m.Version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// content returns the files of the module in dir, without those of modules below it and
// without what is built.
func content(dir string, mod []byte) ([]zip.File, error) {
	var files []zip.File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || d.Name() == ".git" || relative == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		f := file{path: filepath.ToSlash(relative), name: name}
		if relative == "go.mod" {
			f.data = mod
		}
		if d.Type().IsRegular() {
			files = append(files, f)
		}
		return nil
	})
	return files, err
}

// A file of a module. The data, where set, are in place of those on disk.
type file struct {
	path, name string
	data       []byte
}

func (f file) Path() string { return f.path }

func (f file) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(f.name)
	if err == nil && f.data != nil {
		return sized{info, int64(len(f.data))}, nil
	}
	return info, err
}

func (f file) Open() (io.ReadCloser, error) {
	if f.data != nil {
		return io.NopCloser(bytes.NewReader(f.data)), nil
	}
	return os.Open(f.name)
}

type sized struct {
	os.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

// Remove removes the modules from the go command's module cache.
func (l Local) Remove() error {
	var errs []error
	for _, dir := range Released() {
		escaped, err := module.EscapePath(At(dir))
		if err != nil {
			return err
		}
		errs = append(errs, removeAll(filepath.Join(l.cache, filepath.FromSlash(escaped)+"@"+l.Version)))
		downloads, err := filepath.Glob(filepath.Join(l.cache, "cache/download", filepath.FromSlash(escaped), "@v", l.Version+".*"))
		errs = append(errs, err)
		for _, name := range slices.Sorted(slices.Values(downloads)) {
			errs = append(errs, os.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// removeAll also removes folders without write permission, which the go command makes.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}
