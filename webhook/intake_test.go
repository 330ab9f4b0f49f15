package webhook

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-logr/logr"

	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/internal/ruleid"
)

// TestUnreadRequestsNameTheirRule: so do the answers that are no AdmissionReview, and
// "explain" knows the rules.
func TestUnreadRequestsNameTheirRule(t *testing.T) {
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		before int64
		body   io.Reader
		code   int
		rule   string
	}{
		"address": {heads, strings.NewReader("{}"), http.StatusTooManyRequests, ruleid.RequestAddress},
		"cut off": {0, iotest.ErrReader(errors.New("connection reset")), http.StatusRequestTimeout, ruleid.RequestError},
	} {
		i := &intake{limiter: newLimiter(Bounds{}, nil), endpoint: "validate", next: http.NotFoundHandler(), log: logr.Discard()}
		i.heads.Take("192.0.2.1", test.before)
		answer := httptest.NewRecorder()
		i.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/validate", test.body))
		if want := "(dra-steward rule " + test.rule + ")"; answer.Code != test.code || !strings.HasSuffix(strings.TrimSpace(answer.Body.String()), want) {
			t.Errorf("%s: %d %s, want %d and %s", name, answer.Code, answer.Body, test.code, want)
		}
		if _, err := book.Find(test.rule); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
