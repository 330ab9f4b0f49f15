package manager

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

type emptyView struct{ snapshot *tracker.Snapshot }

func (v emptyView) Snapshot() *tracker.Snapshot         { return v.snapshot }
func (v emptyView) HasSyncedChecker() cache.DoneChecker { return v }
func (v emptyView) Name() string                        { return "view" }
func (v emptyView) Done() <-chan struct{}               { c := make(chan struct{}); close(c); return c }

// TestWritten: the status of patches has no view until the resyncer has looked at one, and then that one.
func TestWritten(t *testing.T) {
	if (&eviction{}).written() != nil {
		t.Error("patches are written into slices without a resyncer")
	}
	synctest.Test(t, func(t *testing.T) {
		view := emptyView{tracker.Merge()}
		e := &eviction{resyncer: materialize.NewResyncer(materialize.ResyncOptions{View: view, Mode: slicemerge.Materialize})}
		written := e.written()
		if _, got, _ := written(); got != nil {
			t.Errorf("a view before the resyncer has looked at it: %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = e.resyncer.Run(ctx) }()
		synctest.Wait()
		version, got, of := written()
		if again, _, _ := written(); got != view.snapshot || version != again || of("p").Differing != 0 {
			t.Errorf("view %v, versions %v and %v", got, version, again)
		}
		cancel()
		synctest.Wait()
	})
}
