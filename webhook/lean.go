package webhook

import (
	"bytes"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxLean is how large a request may be that is read by us; larger ones are rare, and
// controller-runtime knows what is too large.
const maxLean = 4 << 20

// lean answers what API servers send, a good AdmissionReview of v1, with less work than
// the webhook behind it, which looks at every request twice. Whatever else comes is left
// to that one, so nothing is answered otherwise than by it.
type lean struct {
	webhook *admission.Webhook
	log     logr.Logger
}

// envelope is an AdmissionReview.
type envelope struct {
	APIVersion string                         `json:"apiVersion"`
	Kind       string                         `json:"kind"`
	Request    *admissionv1.AdmissionRequest  `json:"request,omitempty"`
	Response   *admissionv1.AdmissionResponse `json:"response,omitempty"`
}

func (l lean) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "application/json" || r.ContentLength <= 0 || r.ContentLength > maxLean {
		l.webhook.ServeHTTP(w, r)
		return
	}
	body := make([]byte, r.ContentLength)
	n, err := io.ReadFull(r.Body, body)
	var review envelope
	if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil || review.Response != nil ||
		review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String() {
		r.Body = &rest{io.MultiReader(bytes.NewReader(body[:n]), r.Body), r.Body}
		l.webhook.ServeHTTP(w, r)
		return
	}
	defer r.Body.Close()
	response := l.webhook.Handle(r.Context(), admission.Request{AdmissionRequest: *review.Request})
	answer, err := answerOf(&response.AdmissionResponse)
	if err == nil {
		_, err = w.Write(answer)
	}
	if err != nil {
		l.log.Error(err, "cannot write an answer")
	}
}

// rest is a body of which something has been read.
type rest struct {
	io.Reader
	io.Closer
}
