package manifest

import (
	"io"
	"iter"
)

// DefaultMaxBytes bounds one document where [Reader.MaxBytes] does not. It is
// more than ten times what etcd stores of one object.
const DefaultMaxBytes = 16 << 20

// DumpBytes is the [Reader.MaxBytes] for what kubectl writes of a cluster: one list of all objects.
const DumpBytes = 1 << 30

// Reader reads manifests. Its zero value is ready for use, and one Reader may
// be used by several goroutines at once unless they share Stdin.
type Reader struct {
	// Stdin is what the argument "-" reads; nil means os.Stdin.
	Stdin io.Reader
	// MaxBytes is the size up to which one document of a file is read, and up
	// to which its aliases may expand, by [DefaultMaxBytes] at most; 0 means
	// [DefaultMaxBytes]. A list counts as one document.
	MaxBytes int
}

// Walk yields the documents of all files that args name (see [Files]).
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
	return documents(r.OpenParts(file))
}

// Read yields the documents of in; file is the name they and the errors carry.
// A document that cannot be read is an [*Error], and counts in
// [Document.Index]; documents that hold nothing but comments are left out.
func (r Reader) Read(file string, in io.Reader) iter.Seq2[*Document, error] {
	return documents(r.Parts(file, in))
}

// documents yields the documents of the parts of one file, numbered.
func documents(parts iter.Seq2[Part, error]) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		index := 0
		for part, err := range parts {
			if err != nil {
				yield(nil, err)
				return
			}
			for document, err := range part.Documents() {
				index++
				if document != nil {
					document.Index = index
				}
				if !yield(document, err) {
					return
				}
			}
		}
	}
}
