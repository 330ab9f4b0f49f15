package load

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/scale"
)

// Churn replaces the pods and claims of a round, from 1: those of before end and are deleted,
// and others get their devices.
func Churn(ctx context.Context, config *rest.Config, w scale.Cluster, round int) error {
	l, err := newLoader(config)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, int) error{
		func(ctx context.Context, i int) error { return l.remove(ctx, w, i, max(0, round-scale.ChurnRounds)) },
		func(ctx context.Context, i int) error { return l.workload(ctx, w, i, round) },
	} {
		err := parallel(ctx, func(yield func(func(context.Context) error) bool) {
			for i := range w.Churned(round) {
				if !yield(func(ctx context.Context) error { return step(ctx, i) }) {
					return
				}
			}
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// Replace removes the pods and claims whose numbers it receives, as kubelet and the controllers of Kubernetes do with
// a pod that is evicted, and creates a pod that runs and has no claim for each, as the owner of a pod does.
// It returns when the channel is closed.
func Replace(ctx context.Context, config *rest.Config, w scale.Cluster, claims <-chan int) error {
	l, err := newLoader(config)
	if err != nil {
		return err
	}
	return parallel(ctx, func(yield func(func(context.Context) error) bool) {
		for i := range claims {
			if !yield(func(ctx context.Context) error { return l.replace(ctx, w, i) }) {
				return
			}
		}
	})
}

func (l *loader) replace(ctx context.Context, w scale.Cluster, i int) error {
	if err := l.remove(ctx, w, i, 0); err != nil {
		return err
	}
	pod, _ := w.Workload(i, 1)
	pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses = nil, nil
	for j := range pod.Spec.Containers {
		pod.Spec.Containers[j].Resources.Claims = nil
	}
	running := pod.Status
	if err := l.store(ctx, pod); err != nil {
		return err
	}
	pod.Status = running
	return l.status(ctx, pod)
}

// remove deletes a pod at once, and then its claim, as kubelet and the controller of claims do.
func (l *loader) remove(ctx context.Context, w scale.Cluster, i, round int) error {
	pod, claim := w.Workload(i, round)
	if err := l.delete(ctx, pod); err != nil {
		return err
	}
	if err := l.client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	claim.Status = resourceapi.ResourceClaimStatus{}
	if err := l.status(ctx, claim); err != nil {
		return err
	}
	claim.Finalizers = nil
	l.writes.Add(1)
	if err := l.client.Update(ctx, claim); err != nil {
		return fmt.Errorf("claim %s: %w", claim.Name, err)
	}
	return l.delete(ctx, claim)
}

// delete deletes an object, if it is there, without a time for its end.
func (l *loader) delete(ctx context.Context, object client.Object) error {
	l.writes.Add(1)
	var options []client.DeleteOption
	if _, is := object.(*corev1.Pod); is {
		options = append(options, client.GracePeriodSeconds(0))
	}
	if err := client.IgnoreNotFound(l.client.Delete(ctx, object, options...)); err != nil {
		return fmt.Errorf("%T %s: %w", object, object.GetName(), err)
	}
	return nil
}
