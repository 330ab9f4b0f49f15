package fix

import (
	"bytes"
	"errors"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// unreadable is the ID of the finding that quoting takes away.
const unreadable = "unreadable"

// maxQuotes bounds the keys of a document that get quotes at a time.
const maxQuotes = 1000

// quote puts quotes around the keys for which the reader knows that they need them. A
// document shows one at a time, so that it is read until none is left. Nothing else in
// the text changes, and a change after which fewer documents are read is not made.
func quote(reader manifest.Reader, file string, text []byte) ([]byte, []Change) {
	var done []Change
	edits, changes, readable := quotes(reader, file, text)
	for range maxQuotes {
		if len(edits) == 0 {
			break
		}
		next := replace(text, edits)
		nextEdits, nextChanges, documents := quotes(reader, file, next)
		if documents < readable {
			break
		}
		text, done = next, append(done, changes...)
		edits, changes, readable = nextEdits, nextChanges, documents
	}
	return text, done
}

// A replacement puts one text in place of another.
type replacement struct {
	offset   int
	old, new string
}

func quotes(reader manifest.Reader, file string, text []byte) (edits []replacement, changes []Change, documents int) {
	lines := newLines(text)
	for _, err := range reader.Read(file, bytes.NewReader(text)) {
		var e *manifest.Error
		if err == nil {
			documents++
		}
		if !errors.As(err, &e) || e.Old == "" {
			continue
		}
		offset := lines.offset(e.Line, e.Column)
		if offset < 0 || !bytes.HasPrefix(text[offset:], []byte(e.Old)) {
			continue
		}
		edits = append(edits, replacement{offset, e.Old, e.New})
		changes = append(changes, Change{File: e.File, Line: e.Line, Column: e.Column, Kind: "key", Name: e.Old, Path: "write", Value: e.New, Default: unreadable})
	}
	return edits, changes, documents
}

func replace(text []byte, edits []replacement) []byte {
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(text[at:e.offset])
		out.WriteString(e.new)
		at = e.offset + len(e.old)
	}
	out.Write(text[at:])
	return out.Bytes()
}
