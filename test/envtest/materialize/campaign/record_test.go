package campaign

import (
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

// record adds a row about the run.
func (c *campaign) record(t *testing.T, run longrun.Run) {
	t.Helper()
	run.Record(t, "patches.tsv", c.w.operations(), c.faults.kills, c.faults.leaders,
		c.faults.stops, len(c.faults.restarts), c.audit.writes, c.audit.failedOpen, c.checks, c.compared, c.excused, c.differences)
}
