package lint

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/existing"
	"github.com/dra-steward/dra-steward/internal/foresight/podtemplate"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// A world is what exists for the objects of an input: those of --existing and of the input itself. What pods and claims name
// may be anywhere in the input. Slices, claims and patches are compared with those of their folder, since a repository has
// examples that are never in one cluster.
type world struct {
	names podtemplate.Objects
	// shared are the classes and namespaces, local the other objects by folder.
	shared []any
	local  map[string][]any
	views  map[string]*existing.Objects
	// namespaces are those of the input, then those of --existing.
	namespaces []*corev1.Namespace
	// patches are the files that a kustomization names as patches.
	patches map[string]bool
	// more is true with --existing, without which a kind that is not in the input says nothing.
	more bool
}

// decode returns an object that others are checked by, nil for others and for what cannot be read.
func decode(document *manifest.Document) any {
	if document.APIVersion == "v1" && document.Kind == "Namespace" {
		object, _ := namespace(document)
		return object
	}
	if !document.Ours() || !slices.Contains(crossObjectKinds, document.Kind) {
		return nil
	}
	object, _ := manifest.Decode(document)
	if object == nil {
		return nil
	}
	object.SetManagedFields(nil)
	object.SetAnnotations(nil)
	return object
}

func (w *world) add(folder string, object any) {
	w.names.Add(object)
	switch object := object.(type) {
	case *resourceapi.DeviceClass:
		w.shared = append(w.shared, object)
		return
	case *corev1.Namespace:
		w.shared, w.namespaces = append(w.shared, object), append(w.namespaces, object)
		return
	case *resourceapi.ResourceClaim:
		if object.Status.Allocation == nil {
			return
		}
	case *resourceapi.ResourceClaimTemplate:
		return
	}
	if w.local == nil {
		w.local = map[string][]any{}
	}
	w.local[folder] = append(w.local[folder], object)
}

// parts adds the objects of a text.
func (w *world) parts(folder string, part manifest.Part) {
	if !part.Has(append([]string{"Namespace", "ustomiz"}, crossObjectKinds...)...) {
		return
	}
	for document, err := range part.Documents() {
		if err != nil {
			continue // the check reports it
		}
		if document.Kind == "Kustomization" || document.Kind == "Component" {
			w.kustomization(document)
			continue
		}
		if object := decode(document); object != nil && w.notWhole(document) == "" {
			w.add(folder, object)
		}
	}
}

// finish makes the views of the folders.
func (w *world) finish(base *existing.Objects) {
	w.more = base != nil
	w.views = map[string]*existing.Objects{}
	folders := map[string]bool{"": true}
	for folder := range w.local {
		folders[folder] = true
	}
	for folder := range folders {
		view := &existing.Objects{}
		if base != nil {
			view.Complete = base.Complete
			for _, object := range base.Added {
				view.Add(object)
			}
		}
		for _, object := range slices.Concat(w.shared, w.local[folder]) {
			view.Add(object)
		}
		w.views[folder] = view
	}
	if base != nil {
		for _, object := range base.Added {
			w.names.Add(object)
			if n, is := object.(*corev1.Namespace); is {
				w.namespaces = append(w.namespaces, n)
			}
		}
	}
}

// view is what exists for the objects of a file; nil without anything.
func (w *world) view(folder string) *existing.Objects {
	if w == nil || !w.more && len(w.shared)+len(w.local) == 0 {
		return nil
	}
	if view := w.views[folder]; view != nil {
		return view
	}
	return w.views[""]
}

// folderOf is that by which the objects of a file are compared.
func folderOf(file string) string {
	if strings.HasPrefix(file, "<") {
		return file
	}
	return filepath.Dir(file)
}

// known reads the files once, for what exists.
func (l Linter) known(args []string) *world {
	w := &world{}
	for file, at := range l.files(args) {
		if at.err != nil {
			continue
		}
		for part, err := range l.Reader.OpenParts(file) {
			if err == nil {
				w.parts(folderOf(part.File), part)
			}
		}
	}
	w.finish(l.Sites.Existing)
	return w
}

// inMemory is how much of standard input is kept in memory. A larger one needs a folder for temporary files, which the image
// does not have.
const inMemory = 4 << 20

// spool copies standard input, so that it can be read twice.
func (l *Linter) spool(args []string) (rewind func() error, end func(), err error) {
	rewind, end = func() error { return nil }, func() {}
	if !slices.Contains(args, manifest.Stdin) {
		return rewind, end, nil
	}
	in := l.Reader.Stdin
	if in == nil {
		in = os.Stdin
	}
	begin, failure := io.ReadAll(io.LimitReader(in, inMemory))
	if failure != nil || len(begin) < inMemory {
		again := bytes.NewReader(begin)
		l.Reader.Stdin = spooled{again, failure}
		return func() error { _, err := again.Seek(0, io.SeekStart); return err }, end, nil
	}
	file, err := os.CreateTemp("", "dra-steward-")
	if err != nil {
		return nil, nil, fmt.Errorf("standard input has more than %d MiB and is copied, to be read twice: %w", inMemory>>20, err)
	}
	end = func() { _, _ = file.Close(), os.Remove(file.Name()) }
	rewind = func() error { _, err := file.Seek(0, io.SeekStart); return err }
	_, failure = io.Copy(file, io.MultiReader(bytes.NewReader(begin), in))
	if err := rewind(); err != nil {
		end()
		return nil, nil, err
	}
	l.Reader.Stdin = spooled{file, failure}
	return rewind, end, nil
}

// spooled is standard input again, with the error that ended it.
type spooled struct {
	io.Reader
	failure error
}

func (s spooled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF && s.failure != nil {
		err = s.failure
	}
	return n, err
}
