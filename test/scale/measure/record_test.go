package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testrecord"
)

// recordColumns are those of test/results/scale.tsv, of which tools/citest makes a table and a picture.
const recordColumns = "figure\tnodes\tvalue\tunit\tgrows\taim\tcommit\tdate"

// record puts what was measured into the table of results, if that is wanted.
func record(t *testing.T, s *step) {
	t.Helper()
	if !testrecord.Wanted() {
		return
	}
	file, commit := testrecord.File(t, "scale.tsv"), testrecord.Commit(t)
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	size := strconv.Itoa(s.nodes)
	rows := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(row string) bool {
		cells := strings.Split(row, "\t")
		return row == "" || row == recordColumns || cells[1] == size
	})
	for _, f := range s.figures {
		grows := ""
		if f.grows {
			grows = "yes"
		}
		rows = append(rows, strings.Join([]string{f.name, size, fmt.Sprintf("%.4g", f.value), f.unit, grows, f.target, commit, time.Now().UTC().Format(time.DateOnly)}, "\t"))
	}
	slices.Sort(rows)
	must(t, os.WriteFile(file, []byte(recordColumns+"\n"+strings.Join(rows, "\n")+"\n"), 0o644))
}
