package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// The reasons of a [Condition].
const (
	// ReasonWaiting: nothing has been answered yet.
	ReasonWaiting = "Waiting"
	// ReasonWatching: the kind is read and watched.
	ReasonWatching = "Watching"
	// ReasonNotInstalled: the API server has no such kind. The view is complete
	// without it, and the kind is tried again with growing delays of up to a minute.
	ReasonNotInstalled = "NotInstalled"
	// ReasonForbidden: the identity may not list and watch the kind. The view goes on
	// without it.
	ReasonForbidden = "Forbidden"
	// ReasonUnreachable: the API server does not answer, or with another error.
	ReasonUnreachable = "Unreachable"
)

// A Condition says how reading one kind goes.
type Condition struct {
	Kind Kind `json:"kind"`
	// Available is true while the kind is read.
	Available bool `json:"available"`
	// Reason is one of the constants.
	Reason string `json:"reason"`
	// Message is for people: what is wrong, and what would make it right.
	Message string `json:"message,omitempty"`
	// Since is when Reason last changed.
	Since time.Time `json:"since"`
}

// health keeps the conditions of the sources that are ours.
type health struct {
	logger     logr.Logger
	mutex      sync.Mutex
	conditions map[Kind]*Condition
	dispensed  map[Kind]chan struct{} // closed when the view no longer waits for the kind
}

func newHealth(logger logr.Logger, read []Kind, now time.Time) *health {
	h := &health{logger: logger, conditions: map[Kind]*Condition{}, dispensed: map[Kind]chan struct{}{}}
	for _, kind := range read {
		h.conditions[kind] = &Condition{Kind: kind, Reason: ReasonWaiting, Since: now}
		if kind != SliceKind { // without slices there is nothing to show
			h.dispensed[kind] = make(chan struct{})
		}
	}
	return h
}

// observe notes how a list or a watch ended.
func (h *health) observe(kind Kind, err error) {
	reason, message := judge(kind, err)
	if reason == "" {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	c := h.conditions[kind]
	c.Message = message
	if c.Reason == reason {
		return
	}
	if reason == ReasonWatching {
		h.logger.V(1).Info("Watching", "kind", kind)
	} else {
		h.logger.Info("Cannot watch, going on without", "kind", kind, "reason", reason, "message", message)
	}
	c.Reason, c.Available, c.Since = reason, reason == ReasonWatching, time.Now()
	if reason == ReasonNotInstalled || reason == ReasonForbidden {
		if done := h.dispensed[kind]; done != nil && !isClosed(done) {
			close(done)
		}
	}
}

// judge turns the result of a request into a reason; "" if it says nothing about the
// kind: the end of a context, or what the informer answers by listing again.
func judge(kind Kind, err error) (reason, message string) {
	switch {
	case err == nil:
		return ReasonWatching, ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), apierrors.IsTooManyRequests(err):
		return "", ""
	case apierrors.IsNotFound(err):
		return ReasonNotInstalled, fmt.Sprintf("the API server has no %s: %v; %s", kind, err, remedies[kind])
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return ReasonForbidden, fmt.Sprintf("%s cannot be read: %v; grant list and watch", kind, err)
	default:
		return ReasonUnreachable, fmt.Sprintf("%s cannot be read: %v", kind, err)
	}
}

// remedies say what installs a kind.
var remedies = map[Kind]string{
	SliceKind: "it comes with Kubernetes 1.34",
	ClassKind: "it comes with Kubernetes 1.34",
	PatchKind: "its CustomResourceDefinition comes with the chart of dra-steward",
	RuleKind:  "it comes with Kubernetes 1.37, and before with the feature gate DRADeviceTaintRules and --runtime-config",
}

// list returns the conditions in the order of the kinds.
func (h *health) list() (all []Condition) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, kind := range allKinds() {
		if c := h.conditions[kind]; c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// Conditions say how reading each kind goes, in a fixed order. Of informers that the
// caller runs they say only whether they have synced.
func (t *Tracker) Conditions() []Condition {
	if h := t.options.Sources.health; h != nil {
		return h.list()
	}
	var all []Condition
	for kind, informer := range t.options.Sources.all() {
		c := Condition{Kind: kind, Reason: ReasonWaiting}
		if informer.HasSynced() {
			c.Reason, c.Available = ReasonWatching, true
		}
		all = append(all, c)
	}
	return all
}

// Ready is nil once the tracker has synced; before, it says what it waits for.
func (t *Tracker) Ready() error {
	if cache.IsDone(t.HasSyncedChecker()) {
		return nil
	}
	conditions := slices.DeleteFunc(t.Conditions(), func(c Condition) bool { return c.Available })
	if len(conditions) == 0 {
		return errors.New("the view of the devices is being made")
	}
	all := make([]error, 0, len(conditions))
	for _, c := range conditions {
		if c.Message == "" {
			c.Message = fmt.Sprintf("%s: not read yet", c.Kind)
		}
		all = append(all, errors.New(c.Message))
	}
	return errors.Join(all...)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
