// Package golden keeps answers of the oracles of older minors, so that our rules can
// be held against them without a build. A folder has the cases, but for those of the
// corpus, which are not ours to copy, and a file of answers per Kubernetes version.
package golden

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

const casesFile = "cases.jsonl.gz"

func answersFile(version string) string { return "answers-" + version + ".jsonl.gz" }

// A record is an answer with what it answers.
type record struct {
	// Hash is that of the case.
	Hash string `json:"hash"`
	wire.Answer
}

// A Set is what was recorded for one version.
type Set struct {
	answers map[string]record
}

// hash identifies a case by its content.
func hash(c wire.Case) (string, error) {
	data, err := json.Marshal(c)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), err
}

// ReadCases returns the cases that were recorded themselves.
func ReadCases(folder string) (cases []wire.Case, err error) {
	err = read(filepath.Join(folder, casesFile), func(line []byte) error {
		var c wire.Case
		err := json.Unmarshal(line, &c)
		cases = append(cases, c)
		return err
	})
	return cases, err
}

// Read returns the answers of a version.
func Read(folder, version string) (Set, error) {
	set := Set{map[string]record{}}
	err := read(filepath.Join(folder, answersFile(version)), func(line []byte) error {
		var r record
		err := json.Unmarshal(line, &r)
		set.answers[r.ID] = r
		return err
	})
	return set, err
}

// Answer returns the answer to a case, false if exactly this case was not recorded.
func (s Set) Answer(c wire.Case) (wire.Answer, bool) {
	r, known := s.answers[c.ID]
	sum, err := hash(c)
	return r.Answer, known && err == nil && r.Hash == sum
}

// WriteCases records cases.
func WriteCases(folder string, cases []wire.Case) error {
	return write(filepath.Join(folder, casesFile), func(encoder *json.Encoder) error {
		for _, c := range cases {
			if err := encoder.Encode(c); err != nil {
				return fmt.Errorf("case %s: %w", c.ID, err)
			}
		}
		return nil
	})
}

// Write records the answers of a version. An object is kept only if it lost fields.
func Write(folder, version string, cases []wire.Case, answers []wire.Answer) error {
	return write(filepath.Join(folder, answersFile(version)), func(encoder *json.Encoder) error {
		for i, answer := range answers {
			if len(answer.Dropped) == 0 {
				answer.Object = nil
			}
			sum, err := hash(cases[i])
			if err != nil {
				return err
			}
			if err := encoder.Encode(record{sum, answer}); err != nil {
				return fmt.Errorf("answer to case %s: %w", answer.ID, err)
			}
		}
		return nil
	})
}

func read(name string, line func([]byte) error) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; go run ./cmd/golden records it", err)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	reader := bufio.NewReader(unpacked)
	for {
		text, err := reader.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := line(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func write(name string, content func(*json.Encoder) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(packed)
	encoder.SetEscapeHTML(false)
	if err := content(encoder); err != nil {
		return err
	}
	return packed.Close()
}
