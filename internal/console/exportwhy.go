package console

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const (
	// maxWhyPages is how many claims and pods have a page of their own in an export.
	maxWhyPages = 1000
	// exportTime bounds the predictions of an export.
	exportTime = time.Minute
)

// errLeft is about a prediction for which no time is left.
var errLeft = errors.New("left out, since the predictions of this export took a minute: run the command")

// predictions are what an export predicts with.
type predictions struct {
	in      fleet.Input
	objects taints.Objects
	// err is why nothing can be predicted.
	err   error
	until time.Time
	// ofClaims and ofPods have a page, those that wait first.
	ofClaims []*resourceapi.ResourceClaim
	ofPods   []*corev1.Pod
}

// readPredictions reads what predictions need.
func (e *exporter) readPredictions(ctx context.Context) {
	if e.in, e.err = e.server.withPods(ctx, e.now); e.err == nil && e.in.View != nil {
		e.objects = objectsOf(e.in)
	}
	if e.err == nil && e.in.NoPods {
		e.err = errors.New("unknown: you are not allowed to list the pods of all namespaces")
	}
	e.predictions.until = time.Now().Add(exportTime)
}

// able returns a context for one prediction, or why it is left out.
func (e *exporter) able(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case e.err != nil:
		return nil, nil, e.err
	case time.Now().After(e.predictions.until):
		return nil, nil, errLeft
	}
	ctx, cancel := context.WithDeadline(ctx, e.predictions.until)
	return ctx, cancel, nil
}

// previews are the predictions for a device.
func (e *exporter) previews(ctx context.Context, id usage.DeviceID) []preview {
	limited, cancel, err := e.able(ctx)
	if err != nil {
		return failed(e.server.newPreviews(id), err)
	}
	defer cancel()
	return e.server.predictAll(limited, e.in, e.objects, id)
}

// planClaims decides which claims and pods have a page.
func (e *exporter) planClaims() {
	e.ofClaims = slices.Clone(e.now.fleet.Input.Claims)
	slices.SortStableFunc(e.ofClaims, func(a, b *resourceapi.ResourceClaim) int {
		return first(a.Status.Allocation == nil, b.Status.Allocation == nil)
	})
	for _, pod := range e.in.Pods {
		if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
			e.ofPods = append(e.ofPods, pod)
		}
	}
	slices.SortStableFunc(e.ofPods, func(a, b *corev1.Pod) int { return first(a.Spec.NodeName == "", b.Spec.NodeName == "") })
	left := max(0, len(e.ofClaims)-maxWhyPages/2) + max(0, len(e.ofPods)-maxWhyPages/2)
	e.ofClaims, e.ofPods, e.leftClaims = e.ofClaims[:min(len(e.ofClaims), maxWhyPages/2)], e.ofPods[:min(len(e.ofPods), maxWhyPages/2)], left
	server := links{}
	for _, claim := range e.ofClaims {
		e.known[server.claim(claim.Namespace, claim.Name).URL] = true
	}
	for _, pod := range e.ofPods {
		e.known[server.pod(pod.Namespace, pod.Name).URL] = true
	}
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// claims writes the pages of claims and pods.
func (e *exporter) claims(ctx context.Context) error {
	for _, claim := range e.ofClaims {
		v := e.server.newClaimView(e.now.fleet, claim)
		if limited, cancel, err := e.able(ctx); err == nil {
			e.server.explainClaim(limited, e.in, claim, &v)
			cancel()
		} else {
			v.Error = err.Error()
		}
		v.Events = e.happenedTo(ctx, claim.Namespace, "ResourceClaim", claim.Name)
		if err := e.page(ctx, links{}.claim(claim.Namespace, claim.Name).URL, page{Template: "why", Title: claim.Name, Data: v}); err != nil {
			return err
		}
	}
	for _, pod := range e.ofPods {
		v := e.server.newPodView(e.now.fleet, e.in, pod)
		if limited, cancel, err := e.able(ctx); err == nil {
			v = e.server.podView(limited, e.now, e.in, pod)
			cancel()
		} else {
			v.Error = err.Error()
		}
		v.Events = e.happenedTo(ctx, pod.Namespace, "Pod", pod.Name)
		if err := e.page(ctx, links{}.pod(pod.Namespace, pod.Name).URL, page{Template: "why", Title: pod.Name, Data: v}); err != nil {
			return err
		}
	}
	return nil
}
