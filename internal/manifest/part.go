package manifest

import (
	"bytes"
	"io"
	"iter"
	"os"
	"slices"
)

// Part is the text between two document separators of a file, not parsed yet:
// parts are cut off one after the other and may be parsed at the same time.
type Part struct {
	// File is as in [Document].
	File string

	chunk chunk
	limit int
}

// Has reports whether the text has one of the words.
func (p Part) Has(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(p.chunk.text, []byte(word)) })
}

// Documents parses the part and yields its documents: one, unless it is a list
// or several JSON values. [Document.Index] counts within the part. Every error
// is an [*Error] and counts as well.
func (p Part) Documents() iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		index := 0
		for document, err := range parse(p.File, p.chunk, p.limit) {
			index++
			if err != nil {
				err.File = p.File
				if !yield(nil, err) {
					return
				}
				continue
			}
			document.Index = index
			if !yield(document, nil) {
				return
			}
		}
	}
}

// Parts yields the parts of in that hold more than comments. An error is an
// [*Error], and the last that is yielded.
func (r Reader) Parts(file string, in io.Reader) iter.Seq2[Part, error] {
	limit := r.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	return func(yield func(Part, error) bool) {
		split := newSplitter(in, limit)
		for {
			text, err := split.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Part{File: file}, fileError(file, err))
				return
			}
			if !yield(Part{file, text, min(limit, DefaultMaxBytes)}, nil) {
				return
			}
		}
	}
}

// OpenParts yields the parts of one file, or of standard input when file is
// [Stdin].
func (r Reader) OpenParts(file string) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		if file == Stdin {
			in := r.Stdin
			if in == nil {
				in = os.Stdin
			}
			r.Parts(stdinName, in)(yield)
			return
		}
		in, err := os.Open(file)
		if err != nil {
			yield(Part{File: file}, fileError(file, err))
			return
		}
		defer in.Close()
		r.Parts(file, in)(yield)
	}
}
