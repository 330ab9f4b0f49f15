package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Stdin is the argument for standard input.
const Stdin = "-"

// stdinName is how standard input is called in documents and errors.
const stdinName = "<stdin>"

// Files yields the files that args name, in the order of args: an argument
// that is a regular file names itself whatever its name, a folder all files
// below it that end in .yaml, .yml or .json, in lexical order and without
// hidden folders, and [Stdin] for standard input. What cannot be looked at is
// an [*Error]; the walk goes on after it.
func Files(args ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, arg := range args {
			if arg == Stdin {
				if !yield(arg, nil) {
					return
				}
				continue
			}
			if errors.Is(walk(arg, yield), fs.SkipAll) {
				return
			}
		}
	}
}

// walk yields the files below root; it returns fs.SkipAll when yield has had
// enough.
func walk(root string, yield func(string, error) bool) error {
	proceed := func(ok bool) error {
		if ok {
			return nil
		}
		return fs.SkipAll
	}
	info, err := os.Stat(root)
	if err != nil {
		return proceed(yield("", fileError(root, err)))
	}
	switch {
	case info.Mode().IsRegular():
		return proceed(yield(root, nil))
	case !info.IsDir():
		return proceed(yield("", irregular(root, info.Mode())))
	}
	stopped := false
	_ = filepath.WalkDir(resolveRoot(root), func(path string, entry fs.DirEntry, err error) error {
		var verdict error
		switch {
		case err != nil:
			verdict = proceed(yield("", fileError(path, err)))
		case entry.IsDir():
			if path != root && path != resolveRoot(root) && hidden(entry.Name()) {
				return fs.SkipDir
			}
		case !named(path):
		case entry.Type().IsRegular():
			verdict = proceed(yield(path, nil))
		case entry.Type()&fs.ModeSymlink != 0:
			if take, err := link(root, path); err != nil {
				verdict = proceed(yield("", err))
			} else if take {
				verdict = proceed(yield(path, nil))
			}
		}
		stopped = stopped || verdict != nil
		return verdict
	})
	return proceed(!stopped)
}

// irregular refuses a file that may never end: a read of it would not return.
func irregular(file string, mode fs.FileMode) *Error {
	what := "not a regular file"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return &Error{File: file, Message: fmt.Sprintf("is %s: name a file or folder, or %q for standard input", what, Stdin)}
}

// resolveRoot makes filepath.WalkDir enter a root that is a symbolic link.
func resolveRoot(root string) string {
	info, err := os.Lstat(root)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return root + string(filepath.Separator)
	}
	return root
}

func hidden(name string) bool {
	return strings.HasPrefix(name, ".") && name != "." && name != ".."
}

// named reports whether a walk takes files of the name.
func named(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// link reports whether a walk takes what a link leads to. A link to a folder, or to what never ends, is not followed; one
// that leaves the folder of the walk or leads to nothing is an error, since what it stands for is not read.
func link(root, path string) (take bool, failure *Error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, &Error{File: path, Message: "is a link to a file that does not exist, and is not read: remove the link", Err: err, Link: true}
	}
	if err != nil {
		failure = fileError(path, err)
		failure.Link = true
		return false, failure
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	if base, err := filepath.EvalSymlinks(root); err != nil || !below(base, target) {
		return false, &Error{File: path, Message: fmt.Sprintf("is a link to a file outside of %s, and is not read: name that file as an argument", root), Link: true}
	}
	return true, nil
}

// below reports whether a file is below a folder.
func below(folder, file string) bool {
	inside, err := filepath.Rel(folder, file)
	if err != nil { // one is relative
		absolute, absErr := filepath.Abs(folder)
		other, otherErr := filepath.Abs(file)
		if inside, err = filepath.Rel(absolute, other); errors.Join(absErr, otherErr, err) != nil {
			return false
		}
	}
	return filepath.IsLocal(inside)
}

func fileError(path string, err error) *Error {
	message := err.Error()
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		message = pathError.Err.Error()
	}
	return &Error{File: path, Message: message, Err: err}
}
