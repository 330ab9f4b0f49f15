package objects_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/test/oracle/objects"
)

func BenchmarkCase(b *testing.B) {
	bytes := 0
	for i := range b.N {
		c, err := objects.Case(1, uint64(i))
		if err != nil {
			b.Fatal(err)
		}
		bytes += len(c.Object) + len(c.Old)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/case")
}
