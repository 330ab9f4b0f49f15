// Package config reads the configuration file, and sees when it changes.
package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// Schema is the JSON schema of the file.
//
//go:embed schema.json
var Schema []byte

// A File is a configuration and where its fields stand. The zero value is the empty
// configuration of no file.
type File struct {
	// Name is the name of the file, for messages.
	Name string
	// Revision is the beginning of the SHA-256 of the content.
	Revision string
	v1alpha1.StewardConfiguration

	document *manifest.Document
}

// Load reads the file at path. An empty path is the zero File.
func Load(path string) (File, error) {
	if path == "" {
		return File{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	return Parse(path, data)
}

// Parse reads the content of a configuration file. What would be left out in silence
// is an error, since a limit with a typing mistake would not be in force: a field that
// does not exist or is a duplicate, a second document. Errors name the file, the line
// and the column, all of them in one.
func Parse(name string, data []byte) (File, error) {
	f := File{Name: name, Revision: revision(data)}
	var errs []error
	for document, err := range (manifest.Reader{}).Read(name, bytes.NewReader(data)) {
		switch {
		case err != nil:
			errs = append(errs, err)
		case f.document != nil:
			errs = append(errs, &manifest.Error{File: name, Line: document.Line, Column: 1,
				Message: "a second document; a configuration file is one document"})
		default:
			f.document = document
			errs = append(errs, f.decode()...)
		}
	}
	if f.document == nil && errs == nil {
		errs = []error{&manifest.Error{File: name, Message: "nothing in it; " + wantedType}}
	}
	return f, errors.Join(errs...)
}

// Revision names a content.
func revision(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

const wantedType = `it begins with "apiVersion: ` + v1alpha1.APIVersion + `" and "kind: ` + v1alpha1.ConfigurationKind + `"`

func (f *File) decode() (errs []error) {
	d := f.document
	if d.APIVersion != v1alpha1.APIVersion || d.Kind != v1alpha1.ConfigurationKind {
		return []error{f.At("", fmt.Sprintf("apiVersion %q, kind %q: must be %q and %q",
			d.APIVersion, d.Kind, v1alpha1.APIVersion, v1alpha1.ConfigurationKind))}
	}
	for _, problem := range manifest.DecodeInto(d, &f.StewardConfiguration) {
		errs = append(errs, &manifest.Error{File: f.Name, Line: problem.Line, Column: problem.Column, Message: problem.String()})
	}
	return errs
}

// Locate puts the file, the line and the column before every error about a field of the
// configuration: a [field.Error], or several joined.
func (f File) Locate(err error) error {
	if several, joined := err.(interface{ Unwrap() []error }); joined {
		var errs []error
		for _, err := range several.Unwrap() {
			errs = append(errs, f.Locate(err))
		}
		return errors.Join(errs...)
	}
	about := (*field.Error)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &about) && f.document != nil:
		return f.At(about.Field, err.Error())
	case f.Name != "":
		return fmt.Errorf("%s: %w", f.Name, err)
	default:
		return err
	}
}

// At is an error at the place of a path.
func (f File) At(path, message string) error {
	line, column := f.document.Position(path)
	return &manifest.Error{File: f.Name, Line: line, Column: column, Message: message}
}

// pollEvery is how often a watched file is looked at where the system reports no
// change: some network file systems never do.
const pollEvery = 10 * time.Second

// Watch calls reload whenever the file at path may have changed, and from time to
// time, until ctx ends. It watches the folder, since a mounted ConfigMap changes by
// a link next to the file and editors replace the file. An error says that the system
// does not report changes; then it calls reload from time to time only.
func Watch(ctx context.Context, path string, reload func(), failed func(error)) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var events chan fsnotify.Event
	var errs chan error
	if watcher, err := watcher(filepath.Dir(path)); err != nil {
		failed(err)
	} else {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
	}
	reload() // what has changed since it was read
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			failed(err)
			reload() // events may be lost
		case <-events:
			reload()
		case <-ticker.C:
			reload()
		}
	}
}

func watcher(folder string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(folder); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}
