package oracle_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/test/oracle/golden"
	"github.com/dra-steward/dra-steward/test/oracle/inputs"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

const goldenFolder = "testdata/golden"

// TestGolden holds our rules against what older minors have answered.
func TestGolden(t *testing.T) {
	cases, err := golden.ReadCases(goldenFolder)
	if err != nil {
		t.Fatal(err)
	}
	public, err := inputs.Public()
	if err != nil && !errors.Is(err, corpus.ErrMissing) {
		t.Fatal(err)
	}
	cases = append(cases, public...)
	for _, version := range build.Versions() {
		if build.Minor(version) == oracle.Newest {
			continue
		}
		t.Run(version, func(t *testing.T) {
			set, err := golden.Read(goldenFolder, version)
			if err != nil {
				t.Fatal(err)
			}
			var known []wire.Case
			var answers []wire.Answer
			for _, c := range cases {
				if answer, recorded := set.Answer(c); recorded && !answer.NotServed {
					c.Full = true
					known, answers = append(known, c), append(answers, answer)
				}
			}
			if 2*len(known) < len(cases) {
				t.Errorf("%d of %d cases are recorded; go run ./cmd/golden records them", len(known), len(cases))
			}
			hold(t, minorNumber(t, version), known, answers)
		})
	}
}

// minorNumber is 36 for 1.36 and for 1.36.3.
func minorNumber(t *testing.T, version string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
