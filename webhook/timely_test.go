package webhook

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestTimely: a check that panics, or that answers when the deadline has passed, denies.
func TestTimely(t *testing.T) {
	for name, tt := range map[string]struct {
		check   admission.HandlerFunc
		allowed bool
		code    int32
	}{
		"in time": {func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, true, http.StatusOK},
		"panics":  {func(context.Context, admission.Request) admission.Response { panic("broken") }, false, http.StatusInternalServerError},
		"late": {func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			return admission.Allowed("")
		}, false, http.StatusUnprocessableEntity},
		"late denial": {func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			return admission.Denied("")
		}, false, 0}, // of the check, or that of the deadline
	} {
		t.Run(name, func(t *testing.T) {
			// The two ways on are ready at the same time when the check is late: Go takes one
			// at random.
			for range 50 {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					held := &lease{}
					held.use()
					response := timely{next: tt.check, log: logr.Discard()}.Handle(context.WithValue(ctx, admittedKey{}, admitted{held: held}), admission.Request{})
					held.end()
					if response.Allowed != tt.allowed || tt.code != 0 && response.Result.Code != tt.code {
						t.Errorf("got %+v", response)
					}
				})
			}
		})
	}
}
