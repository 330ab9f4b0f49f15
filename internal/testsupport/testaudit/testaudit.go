// Package testaudit reads the audit log of an API server that a test has started.
package testaudit

import (
	"bufio"
	"encoding/json"
	"io"
	"iter"
	"os"
	"testing"
)

// Entries yields the entries of an audit log that begin at an offset in bytes or after it, each
// with the offset where it ends. E has the fields that are needed of an audit.k8s.io/v1 Event.
//
// The API server may be writing: a last line that does not end yet is left for the next read, and
// a file that does not exist yet has no entries. A line that is no JSON fails the test.
func Entries[E any](t testing.TB, path string, offset int64) iter.Seq2[int64, *E] {
	t.Helper()
	return func(yield func(int64, *E) bool) {
		file, err := os.Open(path)
		if os.IsNotExist(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		end := offset
		for lines := bufio.NewReaderSize(file, 1<<20); ; {
			line, err := lines.ReadBytes('\n')
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			end += int64(len(line))
			e := new(E)
			if err := json.Unmarshal(line, e); err != nil {
				t.Fatalf("%s, the line that ends at byte %d: %v", path, end, err)
			}
			if !yield(end, e) {
				return
			}
		}
	}
}
