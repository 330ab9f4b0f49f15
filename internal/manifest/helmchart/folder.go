package helmchart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
)

// Bounds of a chart in a folder. Its size is bounded as that of an archive is.
const (
	maxEntries = 10_000
	maxNested  = 32
	maxIgnore  = 1 << 20
)

// loadFolder reads a chart as Helm does, but no file outside of the folder: Helm follows links to
// wherever they lead, and a template can print what is there.
func loadFolder(name string) (*chart.Chart, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f := folder{root: root, rules: ignore.Empty(), budget: archive.MaxDecompressedChartSize}
	if text, err := f.read(ignore.HelmIgnore, maxIgnore); err == nil {
		if f.rules, err = ignore.Parse(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.rules.AddDefaults()
	if err := f.walk(".", 0); err != nil {
		return nil, err
	}
	return loader.LoadFiles(f.files)
}

type folder struct {
	root    *os.Root
	rules   *ignore.Rules
	files   []*archive.BufferedFile
	entries int
	budget  int64
}

func (f *folder) walk(name string, depth int) error {
	if depth > maxNested {
		return fmt.Errorf("%s: folders are nested more than %d levels deep", name, maxNested)
	}
	entries, err := fs.ReadDir(f.root.FS(), name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if f.entries++; f.entries > maxEntries {
			return fmt.Errorf("the chart has more than %d files: name what it does not need in .helmignore", maxEntries)
		}
		if err := f.entry(path.Join(name, entry.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) entry(name string, depth int) error {
	info, err := f.root.Lstat(name)
	if err != nil || f.rules.Ignore(name, info) {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = f.root.Stat(name); err != nil {
			return f.refused(name, err)
		}
		if f.rules.Ignore(name, info) {
			return nil
		}
	}
	if info.IsDir() {
		return f.walk(name, depth+1)
	}
	data, err := f.read(name, f.budget)
	if err != nil {
		return err
	}
	f.budget -= int64(len(data))
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	f.files = append(f.files, &archive.BufferedFile{Name: name, ModTime: info.ModTime(), Data: data})
	return nil
}

// read reads a regular file of at most limit bytes.
func (f *folder) read(name string, limit int64) ([]byte, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, f.refused(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", name)
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, f.refused(name, err)
	}
	defer file.Close()
	var data []byte
	if info.Size() <= limit {
		data, err = io.ReadAll(io.LimitReader(file, limit+1))
	}
	if info.Size() > limit || int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: the chart is larger than %d bytes with this file", name, limit)
	}
	return data, err
}

// refused explains why a link is not followed.
func (f *folder) refused(name string, err error) error {
	target, not := f.root.Readlink(name)
	switch {
	case not != nil:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: the link leads to %s, which does not exist: %w", name, target, fs.ErrNotExist)
	}
	return fmt.Errorf("%s: the link to %s leaves the chart, or cannot be followed: put the file into the chart", name, target)
}
