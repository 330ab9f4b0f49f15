package fix

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff is the change of a file as a unified diff that patch and git read, or "".
func Diff(file string, old, changed []byte) []byte {
	name := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(file)), "/")
	return diff.Diff("a/"+name, old, "b/"+name, changed)
}

// Write replaces the content of a file atomically: a reader, also after a crash, sees the
// old or the new content. Links are followed.
func Write(file string, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".dra-steward-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	_, err = next.Write(text)
	if e := next.Chmod(info.Mode().Perm()); err == nil {
		err = e
	}
	if e := next.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
