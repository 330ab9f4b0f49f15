package campaign

import (
	"slices"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/drainoracle"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

// record adds a row about evictions.
func record(t *testing.T, run longrun.Run, r *result, f *faults) {
	t.Helper()
	row := slices.Concat([]any{len(r.verdicts), r.evictions}, f.counts(),
		[]any{r.counts[oracle.Undecided], r.counts[oracle.Missed], r.counts[oracle.Wrong], r.counts[oracle.Twice]})
	run.Record(t, "evictions.tsv", row...)
}

// record adds a row about drains.
func (s *drainScene) record(t *testing.T, run longrun.Run, f *faults) {
	t.Helper()
	evicted, deleted, _ := s.removed()
	row := slices.Concat([]any{len(s.h.Drains), len(s.h.Pods), evicted, deleted}, f.counts())
	counts := countKinds(s.checked)
	for _, kind := range drainoracle.Kinds() {
		row = append(row, counts[kind])
	}
	run.Record(t, "drains.tsv", row...)
}

func (f *faults) counts() []any { return []any{f.kills, f.leaders, f.terminations, f.cuts, f.api} }
