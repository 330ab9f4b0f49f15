package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Options say where to look. The zero value looks where runtimes do by default, on
// the host that this process runs on.
type Options struct {
	// HostRoot is where the file system of the host is mounted; empty means "/".
	HostRoot string
	// Visible are the folders of the host that are below HostRoot, where that is not the
	// whole file system. Device nodes, mounts and hooks elsewhere count as present, since
	// they cannot be seen. Empty means all.
	Visible []string
	// Dirs are the directories of the runtime, as paths of the host, in rising order
	// of precedence. Empty means /etc/cdi and /var/run/cdi.
	Dirs []string
	// MaxVersion is the newest cdiVersion that the runtime knows, such as 0.8.0. Empty
	// means the newest that the library knows which this is built with (see Newest).
	MaxVersion string
	// reasonDisabled is that the runtime applies no id at all.
	Disabled bool
}

// Newest returns the newest cdiVersion that this package can read.
func Newest() string { return specs.CurrentVersion }

// A Registry is what was in the directories when they were read. It does not change,
// and any number of goroutines may use it.
type Registry struct {
	root        hostRoot
	visible     []string
	maxVersion  string
	disabled    bool
	files       []file
	unreadFiles []string  // like specifications, but where runtimes do not look
	problems    []Problem // of directories
}

// A file is one specification. Of those that do not load, kind and devices are what
// could be made out.
type file struct {
	path     string // on the host
	priority int
	spec     *cdi.Spec // nil if it does not load
	version  string
	kind     string
	devices  []string
	mentions func(kind string) bool
	problem  Problem
}

// Read reads the directories once. A directory that does not exist is empty. What is
// wrong with a directory or a file is not an error, but part of the Registry; errors
// are for options that make no sense.
func Read(o Options) (*Registry, error) {
	if o.MaxVersion != "" && !semver.IsValid(vPrefix(o.MaxVersion)) {
		return nil, fmt.Errorf("newest CDI version %q: must be a version such as 0.8.0", o.MaxVersion)
	}
	r := &Registry{root: hostRoot(cmp.Or(o.HostRoot, "/")), visible: o.Visible, maxVersion: o.MaxVersion, disabled: o.Disabled}
	if info, err := os.Stat(string(r.root)); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("host root %q: must be a folder: %w", r.root, cmp.Or(err, fs.ErrInvalid))
	}
	dirs := o.Dirs
	if len(dirs) == 0 {
		dirs = DefaultDirs()
	}
	for priority, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("CDI directory %q: must be an absolute path of the host", dir)
		}
		if err := r.readDir(filepath.Clean(dir), priority); err != nil {
			r.problems = append(r.problems, Problem{reasonDirectoryUnreadable, fmt.Sprintf("%s: %v", dir, reasonOf(err))})
			break // as the library does
		}
	}
	return r, nil
}

func (r *Registry) readDir(dir string, priority int) error {
	real, err := r.root.resolve(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); !entry.IsDir() && (ext == ".json" || ext == ".yaml") {
			r.files = append(r.files, r.readFile(filepath.Join(dir, entry.Name()), priority))
		} else {
			r.unreadFiles = append(r.unreadFiles, r.unread(dir, entry)...)
		}
	}
	return nil
}

// readFile reads a specification through the library. Only a regular file is opened:
// reading a named pipe would never end.
func (r *Registry) readFile(path string, priority int) file {
	f := file{path: path, priority: priority, mentions: func(string) bool { return false }}
	real, err := r.root.resolve(path)
	if err == nil {
		err = regular(real)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(real)
	}
	if err != nil {
		f.problem = Problem{reasonSpecInvalid, fmt.Sprintf("%s: %v", path, reasonOf(err))}
		return f
	}
	f.sketch(content)
	f.spec, err = cdi.ReadSpec(real, priority)
	if err != nil {
		f.problem = Problem{f.whyNot(content), path + ": " + f.sayOnce(err, real)}
	}
	return f
}

// sayOnce is an error of the library in one line, without the path of the file.
func (f *file) sayOnce(err error, real string) string {
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("failed to parse CDI Spec %q: ", real))
	text = strings.TrimPrefix(text, "failed to unmarshal CDI Spec: ")
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), real, f.path)
}

// sketch makes out what a file is about although the library may refuse it.
func (f *file) sketch(content []byte) {
	var s struct {
		Version string `yaml:"cdiVersion"`
		Kind    string `yaml:"kind"`
		Devices []struct {
			Name string `yaml:"name"`
		} `yaml:"devices"`
	}
	text := string(content)
	f.mentions = func(kind string) bool { return strings.Contains(text, kind) }
	if yaml.Unmarshal(content, &s) != nil {
		return
	}
	f.version, f.kind = s.Version, s.Kind
	for _, d := range s.Devices {
		f.devices = append(f.devices, d.Name)
	}
}

// whyNot classifies the library's refusal to load the file.
func (f *file) whyNot(content []byte) string {
	version := vPrefix(f.version)
	if !semver.IsValid(version) {
		return reasonSpecInvalid
	}
	if semver.Compare(version, vPrefix(specs.CurrentVersion)) > 0 {
		return reasonVersionTooNew
	}
	spec, err := cdi.ParseSpec(content)
	if err != nil || spec == nil {
		return reasonSpecInvalid
	}
	needed, err := specs.MinimumRequiredVersion(spec)
	if err == nil && semver.Compare(vPrefix(needed), version) > 0 {
		return reasonVersionTooLow
	}
	return reasonSpecInvalid
}

func vPrefix(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// tooNew reports whether the runtime does not know the version of a file that loads.
func (r *Registry) tooNew(f file) bool {
	return r.maxVersion != "" && semver.Compare(vPrefix(f.version), vPrefix(r.maxVersion)) > 0
}

// Problems returns what is wrong with directories and files, used or not, in the
// order in which they are read.
func (r *Registry) Problems() []Problem {
	all := slices.Clone(r.problems)
	for _, f := range r.files {
		switch {
		case f.spec == nil:
			all = append(all, f.problem)
		case r.tooNew(f):
			all = append(all, r.newer(f))
		}
	}
	return all
}

func (r *Registry) newer(f file) Problem {
	return Problem{reasonVersionTooNew, fmt.Sprintf("%s: cdiVersion %s, and the runtime knows up to %s", f.path, f.version, r.maxVersion)}
}

// reasonOf is the cause of an error of the file system, without the path under the
// host root.
func reasonOf(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// hostRoot is where the file system of the host is.
type hostRoot string

// resolve returns where a path of the host is for this process, symbolic links
// followed as on the host: /var/run leads to the host's /run, not to ours.
func (h hostRoot) resolve(path string) (string, error) {
	return securejoin.SecureJoin(string(h), path)
}

// node is resolve without the last link, for what the runtime does not follow.
func (h hostRoot) node(path string) (string, error) {
	dir, err := h.resolve(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// stat describes a path of the host.
func (h hostRoot) stat(path string) (os.FileInfo, error) {
	real, err := h.resolve(path)
	if err != nil {
		return nil, err
	}
	return os.Stat(real)
}

var errIrregular = errors.New("not a regular file")

func regular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return errIrregular
	}
	return err
}

// HostPath returns where a path of the host is for this process, if the host's file
// system is mounted at root. Symbolic links are followed inside of root only.
func HostPath(root, path string) (string, error) {
	return hostRoot(root).resolve(path)
}

// DefaultDirs returns the directories that runtimes read by default, in rising order of
// precedence.
func DefaultDirs() []string { return []string{cdi.DefaultStaticDir, cdi.DefaultDynamicDir} }
