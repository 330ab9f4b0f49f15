package devicereaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// RestartOptions are where the pods of drivers may be deleted.
type RestartOptions struct {
	Client kubernetes.Interface
	// Namespaces are those that the controller has the right for.
	Namespaces []string
}

// driverPods gives an input the pods of the driver, by the node of a device.
func (c *Controller) driverPods(in *reaction.Input, all *cluster) {
	want := in.Reaction.Spec.End.DriverPods
	if want == nil {
		return
	}
	selector := labels.SelectorFromSet(want.MatchLabels)
	byNode := sync.OnceValue(func() map[string]*corev1.Pod {
		found := map[string]*corev1.Pod{}
		for _, pod := range placement.Stored[*corev1.Pod](c.options.Pods.GetStore()) {
			if pod.Namespace != want.Namespace || pod.Spec.NodeName == "" || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if other := found[pod.Spec.NodeName]; other == nil || other.CreationTimestamp.Before(&pod.CreationTimestamp) {
				found[pod.Spec.NodeName] = pod
			}
		}
		return found
	})
	in.DriverPod = func(name v1alpha1.DeviceName) *corev1.Pod {
		device, published := all.view.Device(name.Driver, name.Pool, name.Device)
		if !published {
			return nil
		}
		return byNode()[reaction.NodeOf(device)]
	}
	in.DriverPodOn = func(node string) *corev1.Pod { return byNode()[node] }
	in.Prepared = func(pod *corev1.Pod, driver string) (claims []types.NamespacedName) {
		for _, p := range c.options.Usage.Prepared(driver, pod.Spec.NodeName)[pod.Spec.NodeName] {
			claims = append(claims, types.NamespacedName{Namespace: p.Claim.Namespace, Name: p.Claim.Name})
		}
		return claims
	}
	in.RestartRefused = c.refused[in.Reaction.Name]
	in.Restarts = c.options.Restarts != nil && slices.Contains(c.options.Restarts.Namespaces, want.Namespace)
}

// actRestarts deletes the pods of drivers. The UID of each is in the status already. A refusal, such as
// that of the admission check for driver pods, is in the message of the device in the next step.
func (c *Controller) actRestarts(ctx context.Context, r *v1alpha1.DeviceReaction, decision reaction.Decision) error {
	var errs []error
	delete(c.refused, r.Name)
	for _, pod := range decision.Restart {
		err := c.options.Restarts.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		switch {
		case err == nil:
			c.event(r, corev1.EventTypeNormal, "RestartedDriver", fmt.Sprintf("deleted pod %s/%s of the driver", pod.Namespace, pod.Name))
		case reconcile.RefusedForNow(err), !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			if c.refused[r.Name] == nil {
				c.refused[r.Name] = map[types.UID]string{}
			}
			c.refused[r.Name][pod.UID] = err.Error()
			errs = append(errs, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}
