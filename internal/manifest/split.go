package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// chunk is the text between two document separators.
type chunk struct {
	text []byte
	// line is the line of the file on which text begins.
	line int
	// content is the line in the file of the first line that is neither empty
	// nor a comment.
	content int
	// refused says why the text is not to be parsed; nil in the normal case.
	refused *Error
}

// splitter cuts a stream into chunks at the lines at which kubectl cuts it.
type splitter struct {
	in    *bufio.Reader
	limit int
	// line is the number of the line that was read last.
	line int
	// started is set once something has been read.
	started bool
	// ended is set between the line "..." and the next separator.
	ended bool
	done  bool
	// current is the chunk being read.
	current chunk
}

func newSplitter(in io.Reader, limit int) *splitter {
	return &splitter{in: bufio.NewReaderSize(in, 64<<10), limit: limit, current: chunk{line: 1}}
}

// next returns the next chunk that holds more than comments, or io.EOF.
func (s *splitter) next() (chunk, error) {
	for !s.done {
		line, whole, err := s.readLine()
		if err != nil && err != io.EOF {
			return chunk{}, err
		}
		s.done = err == io.EOF
		cut := false
		var refused *Error
		if len(line) > 0 {
			s.line++
			cut, refused, err = s.take(line, whole)
			if err != nil {
				return chunk{}, err
			}
		}
		if cut || s.done {
			full := s.current
			s.current = chunk{line: s.line + 1, refused: refused}
			if full.content > 0 || full.refused != nil {
				return full, nil
			}
		}
	}
	return s.rest()
}

// rest returns what a separator at the very end of the stream left behind.
func (s *splitter) rest() (chunk, error) {
	last := s.current
	s.current = chunk{}
	if last.refused != nil {
		return last, nil
	}
	return chunk{}, io.EOF
}

// take adds the line to the current chunk, or reports that the line ends it and
// why the next one must be refused, if it must.
func (s *splitter) take(line []byte, whole bool) (cut bool, refused *Error, err error) {
	if bytes.HasPrefix(line, []byte("---")) {
		s.ended = false
		refused = separatorProblem(line, s.line)
		return true, refused, s.skipLine(whole)
	}
	if whole && isDocumentEnd(line) {
		s.ended = true
		return true, nil, nil
	}
	if s.current.content == 0 && hasContent(line) {
		s.current.content = s.line
		if s.ended && s.current.refused == nil {
			s.current.refused = &Error{Line: s.line, Column: firstColumn(line),
				Message: `kubectl ignores what follows "..." up to the next "---": begin the next document with "---"`}
		}
	}
	return false, nil, s.add(line, whole)
}

// add appends the line, of which the reader may still hold the greater part,
// unless the chunk has grown too large.
func (s *splitter) add(line []byte, whole bool) error {
	for {
		if s.current.refused == nil && len(s.current.text)+len(line) > s.limit {
			s.current.text = nil
			s.current.refused = &Error{Line: max(s.current.content, s.current.line), Column: 1, Message: s.tooLarge()}
		}
		if s.current.refused == nil {
			s.current.text = append(s.current.text, line...)
		}
		if whole {
			return nil
		}
		var err error
		if line, whole, err = s.readLine(); err == io.EOF {
			s.done, whole = true, true
		} else if err != nil {
			return err
		}
	}
}

func (s *splitter) tooLarge() string {
	message := fmt.Sprintf("the document is larger than %d bytes: split it", s.limit)
	if s.limit < DumpBytes {
		message += ", or let lint read more with --max-document-size"
	}
	return message
}

func (s *splitter) skipLine(whole bool) error {
	for !whole {
		var err error
		if _, whole, err = s.readLine(); err == io.EOF {
			s.done, whole = true, true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// readLine returns the next line, or its next part if it is longer than the
// reader's buffer, and whether the line ends there. The slice is valid until
// the next call.
func (s *splitter) readLine() (line []byte, whole bool, err error) {
	line, err = s.in.ReadSlice('\n')
	if !s.started {
		line, s.started = bytes.TrimPrefix(line, []byte("\uFEFF")), true
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return line, false, nil
	}
	return line, true, err
}

// separatorProblem is the problem with a separator line, if anything.
func separatorProblem(line []byte, number int) *Error {
	rest := bytes.TrimSpace(line[len("---"):])
	if len(rest) == 0 || rest[0] == '#' {
		return nil
	}
	return &Error{Line: number, Column: 1,
		Message: `kubectl accepts nothing but a comment behind "---" on the same line: put the document on the next one`}
}

func isDocumentEnd(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("..."))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')
}

func hasContent(line []byte) bool {
	text := bytes.TrimLeft(line, " \t\r\n")
	return len(text) > 0 && text[0] != '#'
}

// firstColumn returns the column of the first character that is no space.
func firstColumn(line []byte) int {
	return len(line) - len(bytes.TrimLeft(line, " \t")) + 1
}
