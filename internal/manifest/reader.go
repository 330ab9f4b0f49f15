package manifest

import (
	"io"
	"iter"
	"os"
)

// DefaultMaxBytes bounds one document where [Reader.MaxBytes] does not. It is
// more than ten times what etcd stores of one object.
const DefaultMaxBytes = 16 << 20

// Reader reads manifests. Its zero value is ready for use, and one Reader may
// be used by several goroutines at once unless they share Stdin.
type Reader struct {
	// Stdin is what the argument "-" reads; nil stands for os.Stdin.
	Stdin io.Reader
	// MaxBytes is the size up to which one document of a file is read, and up
	// to which its aliases may expand; 0 stands for [DefaultMaxBytes]. A list
	// counts as one document.
	MaxBytes int
}

// Walk yields the documents of all files that args stand for (see [Files]).
// Every error is an [*Error]; reading goes on behind it.
func (r Reader) Walk(args ...string) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		for file, err := range Files(args...) {
			if err != nil {
				if !yield(nil, err) {
					return
				}
				continue
			}
			for document, err := range r.Open(file) {
				if !yield(document, err) {
					return
				}
			}
		}
	}
}

// Open yields the documents of one file, or of standard input when file is
// [Stdin].
func (r Reader) Open(file string) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		if file == Stdin {
			in := r.Stdin
			if in == nil {
				in = os.Stdin
			}
			r.Read(stdinName, in)(yield)
			return
		}
		in, err := os.Open(file)
		if err != nil {
			yield(nil, fileError(file, err))
			return
		}
		defer in.Close()
		r.Read(file, in)(yield)
	}
}

// Read yields the documents of in; file is the name they and the errors carry.
// A document that cannot be read is an [*Error], and counts in
// [Document.Index]; documents that hold nothing but comments are left out.
func (r Reader) Read(file string, in io.Reader) iter.Seq2[*Document, error] {
	limit := r.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	return func(yield func(*Document, error) bool) {
		split := newSplitter(in, limit)
		index := 0
		for {
			text, err := split.next()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, fileError(file, err))
				return
			}
			for document, err := range parse(file, text, limit) {
				index++
				if err != nil {
					err.File = file
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
}
