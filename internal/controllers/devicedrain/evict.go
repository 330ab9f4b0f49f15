package devicedrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// answers are what the API server has said about pods. They are lost with the process,
// and nothing depends on them but not asking twice within seconds.
type answers struct {
	// outcomes are those that the status of a drain does not have yet, by drain.
	outcomes map[string]map[types.UID]drain.Outcome
	// evicted is when the last ones came, by drain.
	evicted  map[string]time.Time
	refusals map[types.UID]drain.Refusal
	// unasked are pods whose EvictionRequest was refused, with what the API server said.
	unasked map[types.UID]string
	// evicting are pods whose eviction was accepted, until the view of who holds what shows
	// it, which is later than the informer.
	evicting map[types.UID]bool
	// again are those of evicting that were deleted again, until when that is believed.
	again map[types.UID]time.Time
	names map[types.UID]types.NamespacedName
}

func newAnswers() answers {
	return answers{outcomes: map[string]map[types.UID]drain.Outcome{}, evicted: map[string]time.Time{}, refusals: map[types.UID]drain.Refusal{}, unasked: map[types.UID]string{},
		evicting: map[types.UID]bool{}, again: map[types.UID]time.Time{}, names: map[types.UID]types.NamespacedName{}}
}

// clean drops what is seen of pods by now, by what decides about them, and what is over.
func (a answers) clean(pod func(namespace, name string) *corev1.Pod, now time.Time) {
	for uid := range a.evicting {
		name := a.names[uid]
		seen := pod(name.Namespace, name.Name)
		if seen == nil || seen.UID != uid || seen.DeletionTimestamp != nil && !(now.Before(a.again[uid]) && drain.EndsTooLate(seen, now)) {
			delete(a.evicting, uid)
			delete(a.again, uid)
			delete(a.names, uid)
		}
	}
	a.cleanRequests(pod)
	for uid, refusal := range a.refusals {
		if now.After(refusal.Until) {
			delete(a.refusals, uid)
		}
	}
}

// How long to wait after a refusal: of a budget, of something else, and after no answer.
const (
	budgetPause  = 10 * time.Second
	refusalPause = 30 * time.Second
	errorPause   = 5 * time.Second
)

// evictAll evicts pods, a few at a time, and remembers the answers.
func (c *Controller) evictAll(ctx context.Context, name string, pods []v1alpha1.DrainPod) {
	type answer struct {
		pod     v1alpha1.DrainPod
		outcome drain.Outcome
		refusal drain.Refusal
	}
	var running sync.WaitGroup
	tokens, got := make(chan struct{}, 8), make(chan answer, len(pods))
	for _, pod := range pods {
		tokens <- struct{}{}
		running.Go(func() {
			defer func() { <-tokens }()
			outcome, refusal := outcomeOf(c.evict(ctx, pod), time.Now())
			got <- answer{pod, outcome, refusal}
		})
	}
	running.Wait()
	close(got)
	c.deciding.Lock()
	defer c.deciding.Unlock()
	c.answers.evicted[name] = time.Now()
	for a := range got {
		c.answers.add(name, a.pod, a.outcome, a.refusal, time.Now())
		call := callEvict
		if a.pod.Delete {
			call = callDelete
		}
		c.options.Metrics.answered(call, a.outcome, a.refusal)
		at := podName(a.pod.Namespace, a.pod.Name)
		if a.outcome != drain.Accepted {
			c.options.Logger.V(1).Info("Pod of a DeviceDrain was not evicted", "drain", name, "pod", at, "outcome", a.outcome, "message", a.refusal.Message)
			continue
		}
		// The log is the audit trail: the API server may drop events.
		c.options.Logger.Info("Evicted pod", "drain", name, "pod", at, "uid", a.pod.UID, "deadline", a.pod.Delete)
		c.evictedEvent(name, a.pod)
	}
}

// add remembers an answer about a pod that a drain evicts.
func (a answers) add(name string, pod v1alpha1.DrainPod, outcome drain.Outcome, refusal drain.Refusal, now time.Time) {
	if outcome != "" {
		if a.outcomes[name] == nil {
			a.outcomes[name] = map[types.UID]drain.Outcome{}
		}
		a.outcomes[name][pod.UID] = outcome
	}
	switch outcome {
	case drain.Accepted:
		a.evicting[pod.UID], a.names[pod.UID] = true, podName(pod.Namespace, pod.Name)
		if pod.GracePeriodSeconds != nil {
			a.again[pod.UID] = now.Add(stepTimeout)
		}
	default:
		a.refusals[pod.UID] = refusal
	}
}

// evict asks for the eviction, or the deletion, of the pod of the UID and no other of its
// name.
func (c *Controller) evict(ctx context.Context, pod v1alpha1.DrainPod) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID)), GracePeriodSeconds: pod.GracePeriodSeconds}
	if pod.Delete {
		return c.options.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	}
	return c.options.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &options,
	})
}

// outcomeOf reads an answer. Without an answer the outcome is unknown: the pod shows it later.
func outcomeOf(err error, now time.Time) (drain.Outcome, drain.Refusal) {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return drain.Accepted, drain.Refusal{}
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// A webhook can answer so, too: the pod is gone when the watch has it.
		return drain.Gone, drain.Refusal{Message: err.Error(), Until: now.Add(errorPause)}
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return drain.Refused, drain.Refusal{Budget: true, Message: err.Error(), Until: now.Add(retryAfter(err, budgetPause))}
	case apierrors.IsTooManyRequests(err):
		return drain.Refused, drain.Refusal{Message: err.Error(), Until: now.Add(retryAfter(err, budgetPause))}
	case errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err):
		return drain.Refused, drain.Refusal{Message: err.Error(), Until: now.Add(refusalPause)}
	default:
		return "", drain.Refusal{Message: fmt.Sprintf("no answer: %v", err), Until: now.Add(errorPause)}
	}
}

// retryAfter is how long the API server wants us to wait, at least pause and at most a minute.
func retryAfter(err error, pause time.Duration) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return min(max(pause, time.Duration(seconds)*time.Second), time.Minute)
	}
	return pause
}
