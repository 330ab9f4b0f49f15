// Package example reads the example file of a rule or default: a txtar archive that
// is its test, its documentation and its regression record in one.
//
// The comment of the archive is prose. A file <case>.yaml holds the manifest that
// is written, <case>.old.yaml what is stored before, <case>.want the outcome,
// a line each; a case without .want passes in silence. <case>.user.yaml is who writes, as
// the API server has authenticated them. site.yaml holds the site's
// configuration for all cases, world.yaml the other objects that exist.
package example

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/tools/txtar"
)

// An Example is one archive.
type Example struct {
	// Comment is the prose before the first case.
	Comment string
	// Site is the content of site.yaml, nil if there is none.
	Site []byte
	// Existing is the content of world.yaml, several documents, nil if there is none.
	Existing []byte
	// Cases are in the order of the archive.
	Cases []Case
}

// A Case is one write and its outcome.
type Case struct {
	Name string
	// Object is the manifest written, Old the one stored before; nil on creation.
	Object, Old []byte
	// User is who writes it, nil if that does not matter.
	User []byte
	// Want is the outcome, empty if the write passes without a word.
	Want string
}

const (
	siteFile  = "site.yaml"
	worldFile = "world.yaml"
	oldSuffix = ".old.yaml"
	usrSuffix = ".user.yaml"
	objSuffix = ".yaml"
	wantEnd   = ".want"
)

// Load reads the example of the rule or default id.
func Load(files fs.FS, id string) (Example, error) {
	data, err := fs.ReadFile(files, "examples/"+id+".txtar")
	if err != nil {
		return Example{}, fmt.Errorf("%s has no examples: %w", id, err)
	}
	return Parse(data)
}

// Parse reads an archive. A file that belongs to no case is an error.
func Parse(data []byte) (Example, error) {
	archive := txtar.Parse(data)
	e := Example{Comment: strings.TrimSpace(string(archive.Comment))}
	at := map[string]int{}
	for _, f := range archive.Files {
		if name, is := strings.CutSuffix(f.Name, objSuffix); is && f.Name != siteFile && f.Name != worldFile && !strings.HasSuffix(f.Name, oldSuffix) && !strings.HasSuffix(f.Name, usrSuffix) {
			at[name] = len(e.Cases)
			e.Cases = append(e.Cases, Case{Name: name, Object: f.Data})
		}
	}
	for _, f := range archive.Files {
		if err := e.attach(f, at); err != nil {
			return Example{}, err
		}
	}
	return e, nil
}

func (e *Example) attach(f txtar.File, at map[string]int) error {
	switch f.Name {
	case siteFile:
		e.Site = f.Data
		return nil
	case worldFile:
		e.Existing = f.Data
		return nil
	}
	for _, suffix := range []string{oldSuffix, usrSuffix, wantEnd, objSuffix} {
		name, is := strings.CutSuffix(f.Name, suffix)
		if !is {
			continue
		}
		i, known := at[name]
		if !known {
			return fmt.Errorf("%s: there is no %s%s", f.Name, name, objSuffix)
		}
		switch suffix {
		case oldSuffix:
			e.Cases[i].Old = f.Data
		case usrSuffix:
			e.Cases[i].User = f.Data
		case wantEnd:
			e.Cases[i].Want = string(f.Data)
		}
		return nil
	}
	return fmt.Errorf("%s: must end in %s, %s or %s", f.Name, objSuffix, oldSuffix, wantEnd)
}

// Format writes e as an archive that Parse reads back.
func (e Example) Format() []byte {
	archive := &txtar.Archive{Comment: []byte(e.Comment + "\n")}
	add := func(name string, data []byte) {
		if len(bytes.TrimSpace(data)) > 0 {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: data})
		}
	}
	add(siteFile, e.Site)
	add(worldFile, e.Existing)
	for _, c := range e.Cases {
		add(c.Name+oldSuffix, c.Old)
		add(c.Name+usrSuffix, c.User)
		add(c.Name+objSuffix, c.Object)
		add(c.Name+wantEnd, []byte(c.Want))
	}
	return txtar.Format(archive)
}
