package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/serving/connections"
)

// TestUnreadRequestsNameTheirRule: so do the answers that are no AdmissionReview, and
// "explain" knows the rules.
func TestUnreadRequestsNameTheirRule(t *testing.T) {
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		body io.Reader
		code int
		rule string
	}{
		"address": {strings.NewReader(strings.Repeat(" ", 2*firstBytes)), http.StatusTooManyRequests, ruleid.RequestAddress},
		"cut off": {iotest.ErrReader(errors.New("connection reset")), http.StatusRequestTimeout, ruleid.RequestError},
	} {
		answer := fullIntake(t, test.body)
		if want := "(dra-steward rule " + test.rule + ")"; answer.Code != test.code || !strings.HasSuffix(strings.TrimSpace(answer.Body.String()), want) {
			t.Errorf("%s: %d %s, want %d and %s", name, answer.Code, answer.Body, test.code, want)
		}
		if _, err := book.Find(test.rule); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fullIntake is the answer to a body from an address whose connections hold all that they may.
func fullIntake(t *testing.T, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	bounds := Bounds{System: func(user string) bool { return user == "system:kube-scheduler" }}
	i := &intake{limiter: newLimiter(bounds, nil), endpoint: "validate", next: http.NotFoundHandler(), log: logr.Discard()}
	connection, err := connections.Listener{Listener: one{}, Account: connections.ForConnections(1)}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	i.ServeHTTP(answer, httptest.NewRequestWithContext(connections.Context(t.Context(), connection), http.MethodPost, "/validate", body))
	return answer
}

// one is a listener with a connection.
type one struct{ net.Listener }

func (one) Accept() (net.Conn, error) {
	connection, _ := net.Pipe()
	return connection, nil
}

// TestAddressIsFull: a request of an address with too many of them is denied in a review, for
// which its head is read. API servers ignore any other answer where the failurePolicy is
// Ignore.
func TestAddressIsFull(t *testing.T) {
	for name, test := range map[string]struct {
		user, resource string
		allowed        bool
	}{
		"tenant":    {"jane", "resourceclaims", false},
		"component": {"system:kube-scheduler", "resourceclaims", true},
		"driver":    {"system:node:a", "resourceslices", true},
	} {
		// The head is complete within a part of the body.
		body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"7","resource":{"group":"resource.k8s.io","version":"v1","resource":"` +
			test.resource + `"},"operation":"CREATE","userInfo":{"username":"` + test.user + `"},"object":{"a":"` + strings.Repeat("x", 1<<20) + `"}}}`
		rest := &bytes.Buffer{}
		answer := fullIntake(t, io.TeeReader(strings.NewReader(body), rest))
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || answer.Code != http.StatusOK || review.Response == nil || review.Response.UID != "7" {
			t.Fatalf("%s: %d %s", name, answer.Code, answer.Body)
		}
		got := review.Response
		switch {
		case got.Allowed != test.allowed:
			t.Errorf("%s: %+v", name, got)
		case got.Allowed && got.AuditAnnotations[uncheckedKey] != "address":
			t.Errorf("%s: annotations %v", name, got.AuditAnnotations)
		case !got.Allowed && (got.Result.Code != http.StatusTooManyRequests || got.Result.Reason != "TooManyRequests" || got.Result.Details != nil || !strings.HasSuffix(got.Result.Message, "(dra-steward rule request-address)")):
			t.Errorf("%s: %+v", name, got.Result)
		}
		if rest.Len() != len(body) {
			t.Errorf("%s: %d of %d bytes are read: clients of HTTP/1.1 read no answer before they have sent everything", name, rest.Len(), len(body))
		}
	}
}
