package roll

import (
	"errors"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestOutage: a request is tried again for a time, unless its error lasts. An answer ends the outage.
func TestOutage(t *testing.T) {
	away, forbidden := errors.New("connection refused"), apierrors.NewForbidden(schema.GroupResource{Resource: "devicerolls"}, "firmware", nil)
	a, begin := outage{patience: time.Minute}, time.Now()
	for _, tt := range []struct {
		after time.Duration
		err   error
		want  error
	}{
		{0, away, nil}, {59 * time.Second, away, nil}, {60 * time.Second, nil, nil},
		{61 * time.Second, away, nil}, {120 * time.Second, away, nil}, {120 * time.Second, forbidden, forbidden}, {121 * time.Second, away, away},
	} {
		if got := a.over(cmdutil.Streams{Err: io.Discard}, tt.err, begin.Add(tt.after)); !errors.Is(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.after, got, tt.want)
		}
	}
}
