package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
	"github.com/dra-steward/dra-steward/internal/serving/connections"
)

// intake reads the requests of an endpoint as far as the limiter lets it, and passes them on
// when it is their turn. A request that it refuses gets a denial: an API server takes
// anything else for a failure of the webhook, which it may ignore.
type intake struct {
	*limiter
	endpoint string
	// slices says that a request whose resource has not arrived is about ResourceSlices.
	slices bool
	next   http.Handler
	log    logr.Logger
}

// Why a request is not read or not evaluated.
var (
	errBusy     = errors.New("busy")
	errAddress  = errors.New("too many requests of the address")
	errTooLarge = fmt.Errorf("request entity is too large; limit is %d bytes", maxBody)
)

func (i *intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end := i.deadline(r, time.Now())
	ctx, cancel := context.WithDeadline(r.Context(), end)
	defer cancel()
	held := &resources{users: 1}
	defer held.end()
	reading := newReadDeadline(http.NewResponseController(w), end)
	defer reading.close()
	a := &arrival{intake: i, request: r, connection: connections.From(ctx), held: held}
	known := r.TLS != nil && len(r.TLS.VerifiedChains) > 0
	if known {
		a.connection.Trust()
	}
	err := a.read()
	if err != nil {
		// The deadline stays: the server reads the rest of a small body before it answers.
		reading.stay()
	}
	if errors.Is(err, errBusy) || errors.Is(err, errTooLarge) || errors.Is(err, errAddress) && a.uid != "" {
		// HTTP/1.1 clients read no answer before they have sent everything.
		_, _ = io.CopyN(io.Discard, r.Body, 4*maxBody)
	}
	if err != nil {
		i.refuse(w, a.head, err)
		return
	}
	reading.end()
	address := connections.Address(r.RemoteAddr)
	taken, err := i.acquire(ctx, a.class, address+"\x00"+a.tenant)
	switch {
	case err == nil:
		held.hold(taken.end)
	case !i.mayPass(a.head):
		i.refuse(w, a.head, errBusy)
		return
	}
	handled := false
	ctx = context.WithValue(ctx, admittedKey{}, admitted{held, taken, i.mayPass(a.head), err != nil, known, &handled})
	if !known {
		ctx = caller.With(ctx, address)
	}
	i.next.ServeHTTP(ruleIDWriter{w, &handled}, a.whole(ctx))
}

// ruleIDWriter adds the ID of the rule to the answer to a request that is not well-formed:
// controller-runtime writes it without a handler.
type ruleIDWriter struct {
	http.ResponseWriter
	handled *bool
}

func (w ruleIDWriter) Write(answer []byte) (int, error) {
	var review admissionv1.AdmissionReview
	if *w.handled || json.Unmarshal(answer, &review) != nil || review.Response == nil || review.Response.Result == nil {
		return w.ResponseWriter.Write(answer)
	}
	review.Response.Result.Message = named(review.Response.Result.Message, ruleid.RequestError)
	return len(answer), json.NewEncoder(w.ResponseWriter).Encode(review)
}

// An arrival is a request while it is read.
type arrival struct {
	*intake
	request    *http.Request
	connection *connections.Connection
	held       *resources

	body []byte
	head
	class  class
	tenant string
}

// read reads the request. Memory is taken as data arrives, whatever length is announced.
// Where there is an error, the head is what has arrived of it.
func (a *arrival) read() error {
	a.body = make([]byte, 0, firstBytes)
	complete, err := a.fill(headBytes, func(n int) error { return a.receive(int64(n)) })
	a.head = a.parsed()
	if err != nil {
		return err
	}
	a.class, a.tenant = a.classOf(a.endpoint == guardEndpoint, a.head)
	if complete {
		return nil
	}
	if a.request.ContentLength > maxBody {
		return errTooLarge
	}
	complete, err = a.fill(maxBody+1, func(n int) error {
		if shares := &a.bodies[a.class]; shares.Take(a.tenant, int64(n)*perByte) {
			a.held.hold(func() { shares.Return(a.tenant, int64(n)*perByte) })
			return a.receive(int64(n) * perByte)
		}
		return errBusy
	})
	if err == nil && !complete {
		return errTooLarge
	}
	return err
}

// receive takes room for n bytes until the request has ended.
func (a *arrival) receive(n int64) error {
	if !a.connection.Take(n) {
		return errAddress
	}
	a.held.hold(func() { a.connection.Return(n) })
	return nil
}

// parsed is the head of the request, as far as it has arrived.
func (a *arrival) parsed() head {
	h := parseHead(a.body)
	if a.slices && h.resource == "" {
		h.group, h.resource = resourceapi.GroupName, slicesResource
	}
	return h
}

// fill reads up to a number of bytes in all; complete if there is no more. Before the buffer
// grows, grow is asked.
func (a *arrival) fill(limit int, grow func(n int) error) (complete bool, err error) {
	for len(a.body) < limit {
		if len(a.body) == cap(a.body) {
			size := min(2*cap(a.body), limit)
			if length := a.request.ContentLength; length >= int64(len(a.body)) {
				size = min(size, int(length)+1)
			}
			if err := grow(size - cap(a.body)); err != nil {
				return false, err
			}
			a.body = append(make([]byte, 0, size), a.body...)
		}
		n, err := a.request.Body.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		switch {
		case err == io.EOF || err == nil && int64(len(a.body)) == a.request.ContentLength:
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// whole returns the request with the body that was read.
func (a *arrival) whole(ctx context.Context) *http.Request {
	r := a.request.WithContext(ctx)
	if r.Body != http.NoBody {
		r.Body = received{bytes.NewReader(a.body), a.body}
	}
	return r
}

// refuse answers a request that is not evaluated. Without the UID of the request there is no
// review to answer.
func (i *intake) refuse(w http.ResponseWriter, h head, why error) {
	reason, status := refusalOf(why)
	if h.uid == "" && (reason == "address" || reason == "deadline") {
		i.unread(w, reason, why)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: h.uid, Result: status}
	if i.mayPass(h) {
		response = &admissionv1.AdmissionResponse{UID: h.uid, Allowed: true, AuditAnnotations: map[string]string{uncheckedKey: reason}}
		i.metrics.pass(i.endpoint, reason)
	} else {
		i.metrics.refuse(i.endpoint, reason)
	}
	review := admissionv1.AdmissionReview{Response: response}
	review.Kind, review.APIVersion = reviewKind, cmp.Or(h.apiVersion, reviewVersion)
	if err := json.NewEncoder(w).Encode(review); err != nil {
		i.log.V(1).Info("cannot write an answer", "error", err.Error())
	}
}

// unread answers a request of which nothing is known.
func (i *intake) unread(w http.ResponseWriter, reason string, why error) {
	if reason == "address" {
		i.metrics.refuse(i.endpoint, reason)
		http.Error(w, named(tooManyOfAddress, ruleid.RequestAddress), http.StatusTooManyRequests)
		return
	}
	i.log.V(1).Info("cannot read a request", "error", why.Error())
	http.Error(w, named("cannot read the request", ruleid.RequestError), http.StatusRequestTimeout)
}

const tooManyOfAddress = "dra-steward reads too many requests of this address; try again later"

// refusalOf returns the reason of a refusal for metrics, and its status.
func refusalOf(why error) (reason string, status *metav1.Status) {
	// Without RetryAfterSeconds, for which clients sleep in their worker.
	busy := func(message, rule string) *metav1.Status {
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: named(message, rule)}
	}
	switch {
	case errors.Is(why, errTooLarge):
		return "size", &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
			Message: named(why.Error(), ruleid.RequestSize),
		}
	case errors.Is(why, errAddress):
		return "address", busy(tooManyOfAddress, ruleid.RequestAddress)
	case errors.Is(why, errBusy):
		return "busy", busy("dra-steward is busy with other requests of the same namespace or user; try again later", ruleid.RequestBusy)
	}
	return "deadline", tooLate()
}
