package cdi

import (
	"errors"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

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
