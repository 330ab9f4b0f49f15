package why

import (
	"strings"
	"testing"
	"time"
)

// TestQuotaOfAnEvent: every editor of a namespace can write an event, with numbers that take minutes to parse or to add.
func TestQuotaOfAnEvent(t *testing.T) {
	for _, number := range []string{"1e-3999999", "1e4194967296", "1e2147483647", strings.Repeat("1", 1<<14)} {
		begin := time.Now()
		got := raise("default", exceeded().FindStringSubmatch("exceeded quota: q, requested: a="+number+",b=1, used: a=1,b="+number+", limited: a=1,b=1"))
		if took := time.Since(begin); took > time.Second/4 || got != "" {
			t.Errorf("%.20s takes %s: %.200s", number, took, got)
		}
	}
}
