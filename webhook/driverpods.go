package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// DriverPods knows the pods of drivers, and what their drivers have prepared.
type DriverPods interface {
	// Named returns the pod of that name, nil if it does not exist.
	Named(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// On returns the pods with these labels on a node.
	On(ctx context.Context, namespace, node string, labels map[string]string) ([]corev1.Pod, error)
	// Prepared returns the claims that drivers have prepared on a node. An error says why they
	// are not known.
	Prepared(node string, drivers []string) ([]validate.PreparedClaim, error)
}

// driverPods checks deletions and evictions of the pods of drivers, and passes the others on.
type driverPods struct {
	handler
	next     admission.Handler
	pods     DriverPods
	refusals *refusals
}

// DriverPodDeletions returns a handler for deletions and evictions of the pods of drivers that
// the configuration lists, before another one for the rest.
func DriverPodDeletions(next admission.Handler, pods DriverPods, source ReviewerFunc, o Options) admission.Handler {
	return driverPods{o.handler("validate", source, review.Reviewer.Validate), next, pods, &refusals{}}
}

// Handle refuses to end the pod of a driver that has prepared claims. What it cannot check it
// passes on: a driver that cannot be updated is worse.
func (p driverPods) Handle(ctx context.Context, req admission.Request) admission.Response {
	if !endsPod(req) || cheap(ctx) || !p.source().HasDriverPods(req.Namespace) {
		return p.next.Handle(ctx, req)
	}
	start := time.Now()
	deletion, err := p.deletion(ctx, req, start)
	if err == nil && deletion == nil {
		return p.next.Handle(ctx, req)
	}
	var answer review.Answer
	if err == nil {
		answer, err = p.reviewDeletion(ctx, req, deletion, start)
	}
	if err != nil {
		p.Log.Error(err, "cannot check the deletion of a driver's pod; admitted", "namespace", req.Namespace, "name", req.Name, "uid", req.UID)
		response := p.next.Handle(ctx, req)
		return response.WithWarnings(named("cannot check whether claims are prepared: "+p.redactError(ctx, err).Error(), ruleid.DriverPod))
	}
	p.Metrics.count(answer)
	if !answer.Denied() {
		return p.passOn(ctx, req, answer, deletion)
	}
	if req.DryRun == nil || !*req.DryRun {
		p.refusals.add(caller.Address(ctx), deletion.Pod.UID, start)
	}
	p.Decisions.record(p.endpoint, req, answer)
	p.Metrics.observe(p.endpoint, req, verdictDenied, time.Since(start))
	answer = p.redact(ctx, answer)
	return annotated(ctx, refusedForNow(req, answer), answer)
}

// passOn lets the next handler answer, and adds what was found.
func (p driverPods) passOn(ctx context.Context, req admission.Request, answer review.Answer, deletion *validate.PodDeletion) admission.Response {
	if d := deletion.Driver; len(d.Prepared) > 0 {
		p.Log.Info("a driver's pod ends while claims are prepared", "namespace", req.Namespace, "name", req.Name, "user", req.UserInfo.Username,
			"claims", len(d.Prepared), "ready", condition.PodReady(&deletion.Pod), "other", d.Other, "refusedFor", d.RefusedFor.Duration,
			"reason", deletion.Pod.Annotations[validate.DriverPodAnnotation])
	}
	response := p.next.Handle(ctx, req)
	if len(answer.Findings)+len(answer.Audited)+len(answer.Exempted) == 0 {
		return response
	}
	p.Decisions.record(p.endpoint, req, answer)
	answer = p.redact(ctx, answer)
	response.Warnings = append(response.Warnings, warnings(answer)...)
	return annotated(ctx, response, answer)
}

// refusedForNow is a denial after which clients try again: an eviction gets the status that a
// PodDisruptionBudget gives it, a deletion that of a conflict.
func refusedForNow(req admission.Request, answer review.Answer) admission.Response {
	response := denied(req, answer)
	response.Result.Code, response.Result.Reason = http.StatusConflict, metav1.StatusReasonConflict
	if evicts(req) {
		response.Result.Code, response.Result.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	}
	return response
}

// deletion puts together what is known about the pod; nil if it is not one of a driver that
// the configuration lists.
func (p driverPods) deletion(ctx context.Context, req admission.Request, now time.Time) (*validate.PodDeletion, error) {
	pod, err := p.pod(ctx, req)
	if err != nil || pod == nil {
		return nil, err
	}
	entries := p.source().DriverPods(pod.Namespace, pod.Name, pod.Labels)
	if len(entries) == 0 {
		return nil, nil
	}
	driver := &validate.DriverPod{Drivers: driversOf(entries), RefusedFor: metav1.Duration{Duration: p.refusals.lasting(caller.Address(ctx), pod.UID, now)}}
	deletion := &validate.PodDeletion{Pod: *pod, Driver: driver}
	if driver.Prepared, err = p.pods.Prepared(pod.Spec.NodeName, driver.Drivers); err != nil || len(driver.Prepared) == 0 {
		return deletion, err
	}
	driver.Other, err = p.other(ctx, pod, driver.Prepared, entries)
	return deletion, err
}

// other returns the name of another ready pod on the node, of all drivers that have prepared
// claims; "" if there is none.
func (p driverPods) other(ctx context.Context, pod *corev1.Pod, prepared []validate.PreparedClaim, entries []v1alpha1.DriverPod) (name string, _ error) {
	first := slices.IndexFunc(entries, func(e v1alpha1.DriverPod) bool { return slices.Contains(e.Drivers, prepared[0].Driver) })
	if first < 0 {
		return "", nil
	}
	others, err := p.pods.On(ctx, pod.Namespace, pod.Spec.NodeName, entries[first].Labels)
	for i := range others {
		other := &others[i]
		drivers := driversOf(p.source().DriverPods(other.Namespace, other.Name, other.Labels))
		of := func(claim validate.PreparedClaim) bool { return slices.Contains(drivers, claim.Driver) }
		if other.UID != pod.UID && condition.PodReady(other) && !slices.ContainsFunc(prepared, func(c validate.PreparedClaim) bool { return !of(c) }) {
			name = other.Name
		}
	}
	return name, err
}

func driversOf(entries []v1alpha1.DriverPod) (drivers []string) {
	for _, entry := range entries {
		drivers = append(drivers, entry.Drivers...)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers)
}

// pod returns the pod that a request is about. An Eviction has only its name.
func (p driverPods) pod(ctx context.Context, req admission.Request) (*corev1.Pod, error) {
	if evicts(req) {
		return p.pods.Named(ctx, req.Namespace, req.Name)
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.OldObject.Raw, pod); err != nil {
		return nil, fmt.Errorf("cannot decode the stored Pod: %w", err)
	}
	return pod, nil
}

const (
	// refusalsEnd is the pause after which a deletion is a new one. Controllers try again
	// after at most 16 min 40 s, the longest pause of client-go's limiter, and each try reaches
	// one of the replicas: one of three misses 21 tries in a row once in 5,000.
	refusalsEnd = 6 * time.Hour
	// maxRefusals bounds the memory of one caller: a pod on each of as many nodes.
	maxRefusals = 8192
)

// refusals remember, for each caller, when deletions of pods were first refused. A caller that is not known to be
// an API server can be any pod; it neither starts nor clears the deadline of another caller. The zero value is empty.
type refusals struct {
	mutex   sync.Mutex
	callers caller.Recent[map[types.UID]refusal]
}

// A refusal is when the first and the last deletion of a pod was refused.
type refusal struct{ first, last time.Time }

// add notes a refusal. While there are too many, it does not: the deadline begins later.
func (r *refusals) add(address string, pod types.UID, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pods := r.callers.Of(address, now)
	if *pods == nil {
		*pods = map[types.UID]refusal{}
	}
	had, known := (*pods)[pod]
	if !known && len(*pods) >= maxRefusals {
		maps.DeleteFunc(*pods, func(_ types.UID, refused refusal) bool { return refused.ended(now) })
	}
	switch {
	case known && !had.ended(now):
		(*pods)[pod] = refusal{had.first, now}
	case known || len(*pods) < maxRefusals:
		(*pods)[pod] = refusal{now, now}
	}
}

// lasting returns for how long deletions of a pod have been refused to a caller.
func (r *refusals) lasting(address string, pod types.UID, now time.Time) time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if refused, known := (*r.callers.Of(address, now))[pod]; known && !refused.ended(now) {
		return now.Sub(refused.first)
	}
	return 0
}

func (r refusal) ended(now time.Time) bool { return now.Sub(r.last) > refusalsEnd }
