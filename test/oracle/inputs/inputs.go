// Package inputs gathers the writes that are put to the oracles: the manifests of
// the corpus, upstream's recorded test tables and the examples of our rules and
// defaults.
package inputs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// tables are the files of the corpus with upstream's tables, by the version that they are of.
const tables = "upstream-*-tables.jsonl"

// named is the version of the tables whose answers are recorded under the line alone.
const named = "1.37.0"

// Folder returns the folder of the corpus, or [corpus.ErrMissing] if it has no tables of upstream.
func Folder() (string, error) {
	folder, err := corpus.Find()
	if err == nil && len(tableFiles(folder)) == 0 {
		return "", fmt.Errorf("%w: %s has no %s", corpus.ErrMissing, folder, tables)
	}
	return folder, err
}

// Corpus returns the manifests of the corpus that can be read, each as a creation of
// its v1 form in a namespace that allows adminAccess.
func Corpus(folder string) (cases []wire.Case, err error) {
	for document, err := range (manifest.Reader{}).Walk(folder) {
		if err != nil {
			return nil, err
		}
		if !document.Ours() {
			continue
		}
		object, _ := manifest.Decode(document)
		if object == nil {
			continue
		}
		raw := json.RawMessage(document.Raw)
		if document.APIVersion != "resource.k8s.io/v1" {
			if raw, err = json.Marshal(object); err != nil {
				return nil, err
			}
		}
		file, err := filepath.Rel(folder, document.File)
		if err != nil {
			return nil, err
		}
		id := fmt.Sprintf("corpus/%s#%d", filepath.ToSlash(file), document.Index)
		cases = append(cases, wire.Case{ID: id, Op: wire.Create, Object: raw, Admin: true})
	}
	return cases, nil
}

// tableFiles are the paths of upstream's tables in a folder.
func tableFiles(folder string) []string {
	files, _ := filepath.Glob(filepath.Join(folder, tables)) // its only error is that of the pattern
	return files
}

// A Row is a case of upstream's tables, with what the hand-written validation alone
// said of it, all feature gates that it needs being on.
type Row struct {
	wire.Case
	// Version is that of the Kubernetes whose tests have the row.
	Version  string
	Recorded []wire.Error
}

// Tables returns the rows of all of upstream's tables in a folder.
func Tables(folder string) (rows []Row, err error) {
	for _, file := range tableFiles(folder) {
		some, err := table(file)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

// table returns the rows of one file, named by version and line; those of 1.37.0 by their lines
// alone, as the recorded answers of older minors name them.
func table(name string) (rows []Row, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "upstream-"), "-tables.jsonl")
	prefix := "tables/" + version + "/"
	if version == named {
		prefix = "tables/"
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var record struct {
			Func        string
			Object, Old json.RawMessage
			Errors      []wire.Error
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		c := wire.Case{
			ID: prefix + strconv.Itoa(n), Op: wire.Create, Object: record.Object, Old: record.Old,
			Gates: map[string]bool{wire.AllDRA: true}, Admin: true,
		}
		if record.Old != nil {
			c.Op = wire.Update
		}
		if strings.Contains(record.Func, "Status") {
			c.Subresource = "status"
		}
		rows = append(rows, Row{c, version, record.Errors})
	}
	return rows, lines.Err()
}

// Public returns the corpus and the tables, which are not part of the repository.
func Public() ([]wire.Case, error) {
	folder, err := Folder()
	if err != nil {
		return nil, err
	}
	cases, err := Corpus(folder)
	if err != nil {
		return nil, err
	}
	rows, err := Tables(folder)
	for _, row := range rows {
		cases = append(cases, row.Case)
	}
	return cases, err
}

// Examples returns the examples of our rules and defaults.
func Examples() (cases []wire.Case, err error) {
	for _, source := range []struct {
		name  string
		files fs.FS
	}{{"validate", validate.Examples}, {"mutate", mutate.Examples}} {
		names, err := fs.Glob(source.files, "examples/*.txtar")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			id := strings.TrimSuffix(path.Base(name), ".txtar")
			e, err := example.Load(source.files, id)
			if err != nil {
				return nil, err
			}
			for _, c := range e.Cases {
				one, err := fromExample(source.name+"/"+id+"/"+c.Name, c)
				if err != nil {
					return nil, err
				}
				cases = append(cases, one)
			}
		}
	}
	return cases, nil
}

// fromExample makes a case of an example. What an update changes reports whether it is
// one of the status.
func fromExample(id string, e example.Case) (c wire.Case, err error) {
	c = wire.Case{ID: id, Op: wire.Create, Gates: map[string]bool{wire.AllDRA: true}, Admin: true}
	if c.Object, err = yaml.YAMLToJSON(e.Object); err != nil {
		return c, fmt.Errorf("%s: %w", id, err)
	}
	if e.Old == nil {
		return c, nil
	}
	c.Op = wire.Update
	if c.Old, err = yaml.YAMLToJSON(e.Old); err != nil {
		return c, fmt.Errorf("%s: %w", id, err)
	}
	var is, was struct{ Status json.RawMessage }
	if err := errors.Join(json.Unmarshal(c.Object, &is), json.Unmarshal(c.Old, &was)); err != nil {
		return c, fmt.Errorf("%s: %w", id, err)
	}
	if string(is.Status) != string(was.Status) {
		c.Subresource = "status"
	}
	return c, nil
}
