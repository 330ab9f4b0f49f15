package devicedrain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecycleapi "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// Requester is the requester of the EvictionRequests. Kubernetes makes it a label of the
// Evictions that serve them.
const Requester = v1alpha1.Group + "/drain"

// newRequest is the EvictionRequest of a drain for a pod. Its name depends only on the two,
// so that it is created once. Its owner is the drain: deleting the drain withdraws it.
func newRequest(d *v1alpha1.DeviceDrain, pod v1alpha1.DrainPod) *lifecycleapi.EvictionRequest {
	sum := sha256.Sum256([]byte(string(d.UID) + "/" + string(pod.UID)))
	request := &lifecycleapi.EvictionRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: "drain-" + hex.EncodeToString(sum[:10]),
		Labels:      map[string]string{drain.DrainLabel: d.Name},
		Annotations: map[string]string{drain.UIDAnnotation: string(d.UID)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceDrainKind, Name: d.Name, UID: d.UID,
		}},
	}}
	request.Spec.Requester, request.Spec.Intent = Requester, lifecycleapi.EvictionRequestIntentEviction
	request.Spec.Target.Pod = &lifecycleapi.EvictionRequestPodReference{Name: pod.Name, UID: pod.UID}
	return request
}

// readRequests lists the EvictionRequests of a drain that makes them, or has made them.
func (c *Controller) readRequests(ctx context.Context, name string) drain.Requests {
	var d *v1alpha1.DeviceDrain
	c.locked(func() { d = c.newest(name) })
	if d == nil || d.Spec.Via != v1alpha1.ViaEvictionRequest && len(d.Status.Requested) == 0 &&
		meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainViaEvictionRequest) == nil {
		return drain.Requests{}
	}
	selector := metav1.ListOptions{LabelSelector: drain.DrainLabel + "=" + name}
	list, err := c.options.Client.LifecycleV1alpha1().EvictionRequests(metav1.NamespaceAll).List(ctx, selector)
	if err != nil {
		return c.unreadable(name, err)
	}
	c.locked(func() { delete(c.unread, name) })
	requests, answered := drain.Requests{Known: true, Stored: map[types.UID]drain.Request{}}, false
	for i := range list.Items {
		r := &list.Items[i]
		if r.Annotations[drain.UIDAnnotation] == string(d.UID) && r.Spec.Target.Pod != nil {
			requests.Stored[r.Spec.Target.Pod.UID] = stored(r)
			answered = answered || hasStatus(r)
		}
	}
	if answered {
		c.addProgress(ctx, requests)
	}
	return requests
}

// unreadable concludes from an error when the requests cannot be used, at the latest a
// minute after the first error.
func (c *Controller) unreadable(name string, err error) drain.Requests {
	switch {
	case apierrors.IsNotFound(err):
		return drain.Requests{Reason: v1alpha1.FallbackNotServed, Message: "the API server does not serve EvictionRequests (lifecycle.k8s.io/v1alpha1, feature gate EvictionRequestAPI)"}
	case apierrors.IsForbidden(err):
		return drain.Requests{Reason: v1alpha1.FallbackForbidden, Message: "the controller is not allowed to use EvictionRequests: set the chart's value controller.drains.evictionRequests; " + err.Error()}
	}
	var since time.Time
	c.locked(func() {
		if c.unread[name].IsZero() {
			c.unread[name] = time.Now()
		}
		since = c.unread[name]
	})
	if time.Since(since) < drain.AnswerTime {
		c.options.Logger.V(1).Info("Cannot list the EvictionRequests of a DeviceDrain", "drain", name, "error", err.Error())
		return drain.Requests{}
	}
	return drain.Requests{Reason: v1alpha1.FallbackNotReadable, Message: fmt.Sprintf("EvictionRequests could not be listed for %s: %v", drain.AnswerTime, err)}
}

func hasStatus(r *lifecycleapi.EvictionRequest) bool {
	return r.Status.ObservedGeneration != nil || len(r.Status.Conditions) > 0
}

func stored(r *lifecycleapi.EvictionRequest) drain.Request {
	s := drain.Request{Namespace: r.Namespace, Name: r.Name, Answered: hasStatus(r)}
	for _, c := range r.Status.Conditions {
		move(&s, &c.LastTransitionTime)
		if c.Type == string(lifecycleapi.EvictionConditionFailed) && c.Status == metav1.ConditionTrue {
			s.Failed = condition.Bounded(c.Reason+": "+c.Message, 512)
		}
	}
	return s
}

// move notes a time at which something of a request has changed.
func move(r *drain.Request, at *metav1.Time) {
	if at != nil && at.After(r.Moved) {
		r.Moved = at.Time
	}
}

// addProgress adds what responders report in the Evictions that serve the requests. Without
// it, only the conditions of the requests count.
func (c *Controller) addProgress(ctx context.Context, requests drain.Requests) {
	list, err := c.options.Client.LifecycleV1alpha1().Evictions(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: Requester})
	if err != nil {
		c.options.Logger.V(1).Info("Cannot list the Evictions of EvictionRequests", "error", err.Error())
		return
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Spec.Target.Pod == nil {
			continue
		}
		request, ours := requests.Stored[e.Spec.Target.Pod.UID]
		if !ours {
			continue
		}
		for _, condition := range e.Status.Conditions {
			move(&request, &condition.LastTransitionTime)
		}
		for _, responder := range e.Status.Responders {
			move(&request, responder.StartTime)
			move(&request, responder.HeartbeatTime)
			move(&request, responder.CompletionTime)
		}
		requests.Stored[e.Spec.Target.Pod.UID] = request
	}
}

// writeRequests withdraws and creates EvictionRequests, a few at a time. What fails is
// decided about again.
func (c *Controller) writeRequests(ctx context.Context, d *v1alpha1.DeviceDrain, decision drain.Decision) {
	var running sync.WaitGroup
	defer running.Wait()
	tokens := make(chan struct{}, 8)
	run := func(call func()) {
		tokens <- struct{}{}
		running.Go(func() {
			defer func() { <-tokens }()
			call()
		})
	}
	for _, request := range decision.Withdraw {
		run(func() { c.withdraw(ctx, d.Name, request) })
	}
	for _, pod := range decision.Ask {
		run(func() { c.ask(ctx, d, pod) })
	}
}

func (c *Controller) withdraw(ctx context.Context, name string, r drain.Request) {
	err := c.options.Client.LifecycleV1alpha1().EvictionRequests(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.options.Logger.V(1).Info("Cannot delete an EvictionRequest; retrying", "drain", name, "evictionRequest", podName(r.Namespace, r.Name), "error", err.Error())
	}
}

// ask creates the request for a pod.
func (c *Controller) ask(ctx context.Context, d *v1alpha1.DeviceDrain, pod v1alpha1.DrainPod) {
	at := podName(pod.Namespace, pod.Name)
	_, err := c.options.Client.LifecycleV1alpha1().EvictionRequests(pod.Namespace).Create(ctx, newRequest(d, pod), metav1.CreateOptions{FieldManager: ownclient.DrainManager})
	var status apierrors.APIStatus
	outcome, refusal := drain.Accepted, drain.Refusal{}
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		c.options.Logger.Info("Requested the eviction of a pod", "drain", d.Name, "pod", at, "uid", pod.UID)
		c.event(podReference(pod), corev1.EventTypeNormal, "DeviceDrain", "Requested the eviction to drain its devices: DeviceDrain "+d.Name)
	case apierrors.IsNotFound(err): // the API, or the namespace: the next step finds which
		outcome = drain.Gone
	case errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsTooManyRequests(err):
		outcome = drain.Refused
	default:
		outcome = ""
	}
	c.locked(func() {
		if outcome == drain.Refused {
			c.answers.unasked[pod.UID] = condition.Bounded(err.Error(), 512)
			c.answers.names[pod.UID] = at
		}
		c.options.Metrics.answered(callRequest, outcome, refusal)
	})
}

// fellBack reports the pods whose request has come to nothing.
func (c *Controller) fellBack(name string, pods []drain.Fallback) {
	for _, f := range pods {
		c.options.Metrics.fellBack(f.Reason)
		c.options.Logger.Info("An EvictionRequest has come to nothing; evicting the pod", "drain", name, "pod", podName(f.Pod.Namespace, f.Pod.Name), "reason", f.Reason, "message", f.Message)
		c.event(podReference(f.Pod), corev1.EventTypeWarning, f.Reason, fmt.Sprintf("DeviceDrain %s evicts the pod through the Eviction API: %s", name, f.Message))
	}
}

// cleanRequests forgets refusals of pods that are gone.
func (a answers) cleanRequests(pod func(namespace, name string) *corev1.Pod) {
	maps.DeleteFunc(a.unasked, func(uid types.UID, _ string) bool {
		name := a.names[uid]
		seen := pod(name.Namespace, name.Name)
		gone := seen == nil || seen.UID != uid
		if gone && !a.evicting[uid] {
			delete(a.names, uid)
		}
		return gone
	})
}
