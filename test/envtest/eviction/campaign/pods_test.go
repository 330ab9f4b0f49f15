package campaign

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// A pod is one that the test has created.
type pod struct {
	oracle.Pod
	uid    types.UID
	node   string
	claims []*claim
	// claimOf has the claim of each of Uses.
	claimOf []*claim
}

// A claim is one with an allocation.
type claim struct {
	name       string
	allocation *resourceapi.AllocationResult
	users      []*pod
	released   bool
}

// newClaim creates a claim and chooses devices of the node for it.
func (s *scene) newClaim(ctx context.Context, node string) (*claim, error) {
	c := &claim{name: s.name("claim"), allocation: &resourceapi.AllocationResult{}}
	object := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	for i := range pick(s, 1, 1, 1, 2) {
		request, tolerations := fmt.Sprint("device-", i), s.tolerations()
		object.Spec.Devices.Requests = append(object.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: request,
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "devices", Tolerations: tolerations}})
		d := s.deviceOn(node)
		c.allocation.Devices.Results = append(c.allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: request, Driver: d.Driver, Pool: d.Pool, Device: d.Name, Tolerations: tolerations})
	}
	_, err := s.w.write(ctx, func(ctx context.Context) error {
		_, err := s.w.ResourceV1().ResourceClaims(namespace).Create(ctx, object, metav1.CreateOptions{})
		return existing(err)
	})
	return c, err
}

// existing is nil for what an earlier request has created.
func existing(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// missing is nil for what an earlier request has deleted.
func missing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deviceOn is a device of a node.
func (s *scene) deviceOn(node string) oracle.Device {
	of := slices.Clone(s.published)
	of = slices.DeleteFunc(of, func(p *published) bool { return p.node != node })
	p := pick(s, of...)
	return oracle.Device{Driver: p.driver, Pool: p.node, Name: pick(s, p.devices...)}
}

// createPods creates many pods at once.
func (s *scene) createPods(ctx context.Context) error {
	for range 10 {
		if err := s.createPod(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) createPod(ctx context.Context) error {
	return s.createNamed(ctx, s.name("pod"))
}

// createNamed creates a pod with one claim or two, or with that of another pod.
func (s *scene) createNamed(ctx context.Context, name string) error {
	p := &pod{Pod: oracle.Pod{Name: name}, node: pick(s, nodeNames()...)}
	if len(s.live) > 0 && s.chance(10) {
		other := pick(s, s.live...)
		if c := pick(s, other.claims...); !c.released {
			p.node, p.claims = other.node, []*claim{c}
		}
	}
	for n := len(p.claims); n == 0 || n < 2 && s.chance(15); n++ {
		c, err := s.newClaim(ctx, p.node)
		if err != nil {
			return err
		}
		p.claims = append(p.claims, c)
	}
	if err := s.bind(ctx, p); err != nil {
		return err
	}
	s.all, s.live = append(s.all, p), append(s.live, p)
	for _, c := range p.claims {
		if err := s.reserve(ctx, p, c); err != nil {
			return err
		}
	}
	return nil
}

// bind creates the pod on its node.
func (s *scene) bind(ctx context.Context, p *pod) (err error) {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	object.Spec.NodeName, object.Spec.Containers = p.node, container()
	object.Spec.TerminationGracePeriodSeconds = new(int64(0))
	for i, c := range p.claims {
		object.Spec.ResourceClaims = append(object.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("claim-", i), ResourceClaimName: &c.name})
	}
	p.Begin, err = s.w.write(ctx, func(ctx context.Context) error {
		created, err := s.w.CoreV1().Pods(namespace).Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = s.w.CoreV1().Pods(namespace).Get(ctx, p.Name, metav1.GetOptions{})
		}
		if err == nil {
			p.uid = created.UID
		}
		return err
	})
	return err
}

// reserve allocates a claim and reserves it for a pod. kube-controller-manager may reserve
// it, too, or take the allocation away when the other pods of the claim are gone.
func (s *scene) reserve(ctx context.Context, p *pod, c *claim) error {
	m, err := s.changeClaim(ctx, c, func(status *resourceapi.ResourceClaimStatus) {
		status.Allocation = c.allocation
		if !slices.ContainsFunc(status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == p.uid }) {
			status.ReservedFor = append(status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.uid})
		}
	})
	if err != nil {
		return err
	}
	c.users = append(c.users, p)
	for _, r := range c.allocation.Devices.Results {
		p.Uses = append(p.Uses, oracle.Use{Device: oracle.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device}, Tolerations: r.Tolerations,
			Begin: oracle.Moment{Earliest: p.Begin.Earliest, Latest: m.Latest}})
		p.claimOf = append(p.claimOf, c)
	}
	return nil
}

func (s *scene) changeClaim(ctx context.Context, c *claim, change func(*resourceapi.ResourceClaimStatus)) (oracle.Moment, error) {
	return s.w.write(ctx, func(ctx context.Context) error {
		claims := s.w.ResourceV1().ResourceClaims(namespace)
		object, err := claims.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&object.Status)
		_, err = claims.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// release takes the allocation of a claim away from its pods, which go on.
func (s *scene) release(ctx context.Context) error {
	if len(s.live) == 0 {
		return nil
	}
	c := pick(s, pick(s, s.live...).claims...)
	if c.released {
		return nil
	}
	m, err := s.changeClaim(ctx, c, func(status *resourceapi.ResourceClaimStatus) { *status = resourceapi.ResourceClaimStatus{} })
	if err != nil {
		return err
	}
	c.released = true
	for _, p := range c.users {
		for i := range p.Uses {
			if p.claimOf[i] == c {
				p.Uses[i].End = m
			}
		}
	}
	return nil
}

func (s *scene) deletePod(ctx context.Context) error {
	_, err := s.deleted(ctx)
	return err
}

// replacePod deletes a pod and creates another one with its name.
func (s *scene) replacePod(ctx context.Context) error {
	name, err := s.deleted(ctx)
	if err != nil || name == "" {
		return err
	}
	return s.createNamed(ctx, name)
}

// deleted deletes a pod and returns its name, unless it is gone already.
func (s *scene) deleted(ctx context.Context) (name string, err error) {
	if len(s.live) == 0 {
		return "", nil
	}
	i := s.random.IntN(len(s.live))
	p := s.live[i]
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.uid))}
	attempts, found := 0, true
	m, err := s.w.write(ctx, func(ctx context.Context) error {
		attempts++
		err := s.w.CoreV1().Pods(namespace).Delete(ctx, p.Name, options)
		if apierrors.IsNotFound(err) {
			found = attempts > 1
		}
		return missing(err)
	})
	if err != nil || !found {
		return "", err
	}
	p.End = m
	s.live = slices.Delete(s.live, i, i+1)
	return p.Name, s.forget(ctx, p)
}

// forget deletes the claims that only this pod had.
func (s *scene) forget(ctx context.Context, p *pod) error {
	for _, c := range p.claims {
		c.users = slices.DeleteFunc(c.users, func(other *pod) bool { return other == p })
		if len(c.users) > 0 {
			continue
		}
		_, err := s.w.write(ctx, func(ctx context.Context) error {
			return missing(s.w.ResourceV1().ResourceClaims(namespace).Delete(ctx, c.name, metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep forgets the pods that are gone.
func (s *scene) sweep(ctx context.Context) error {
	var list *corev1.PodList
	_, err := s.w.write(ctx, func(ctx context.Context) (err error) {
		list, err = s.w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	var left []*pod
	for _, p := range s.live {
		if there[p.uid] {
			left = append(left, p)
		} else if err := s.forget(ctx, p); err != nil {
			return err
		}
	}
	s.live = left
	return nil
}
