package webhook

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestStuckChecksGiveTheirSlotsBack: six checks of two namespaces that never end, and look at
// no context, keep no slot from a third. The two get none until their checks end.
func TestStuckChecksGiveTheirSlotsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(Bounds{Slots: minSlots}, nil)
		stuck := make(chan struct{})
		check := func(tenant string, do admission.HandlerFunc) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			held := &resources{users: 1}
			defer held.end()
			taken, err := l.acquire(ctx, tenants, tenant)
			if err != nil {
				return err
			}
			held.hold(taken.end)
			timely{next: do, log: logr.Discard()}.Handle(context.WithValue(ctx, admittedKey{}, admitted{held: held, slot: taken}), admission.Request{})
			return nil
		}
		for _, tenant := range []string{"a", "b", "a", "b", "a", "b"} {
			go func() {
				_ = check(tenant, func(context.Context, admission.Request) admission.Response {
					<-stuck
					return admission.Allowed("")
				})
			}()
		}
		<-time.After(2 * time.Second)
		start := time.Now()
		admits := func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }
		for range 100 {
			if err := check("c", admits); err != nil {
				t.Fatalf("a third tenant: %v", err)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("a third tenant waits %v", took)
		}
		if err := check("a", admits); !errors.Is(err, errBusy) {
			t.Errorf("whose checks are stuck: got %v, want that it is busy", err)
		}
		close(stuck)
		synctest.Wait()
		if err := check("a", admits); err != nil {
			t.Errorf("after the checks have ended: %v", err)
		}
	})
}
