package campaign

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/drainoracle"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

// A drainPod is a pod on a device of the drains.
type drainPod struct {
	*drainoracle.Pod
	claim string
}

// createPod creates a pod, or two with the same claim. It has a device that no drain has, as
// kube-scheduler does it, or in one of eight cases any.
func (s *drainScene) createPod(ctx context.Context) error {
	devices := s.undrained(s.chance(12), drainNodes()...)
	if len(devices) == 0 || len(s.live) >= maxDrainPods {
		return nil
	}
	first := pick(s, devices...)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: s.name("claim"), Namespace: pick(s, drainNamespaces()...)}}
	held := []oracle.Device{first}
	if others := s.undrained(false, first.Pool); len(others) > 1 && s.chance(15) {
		if other := pick(s, others...); other != first {
			held = append(held, other)
		}
	}
	if err := s.createClaim(ctx, claim, len(held)); err != nil {
		return err
	}
	for range pick(s, 1, 1, 1, 1, 1, 1, 1, 1, 2) {
		if err := s.createNamed(ctx, s.name("pod"), claim, held); err != nil {
			return err
		}
	}
	return nil
}

// tolerations keep the eviction controller away.
func (s *drainScene) tolerations() []resourceapi.DeviceToleration {
	return []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}}
}

func (s *drainScene) createClaim(ctx context.Context, claim *resourceapi.ResourceClaim, devices int) error {
	for i := range devices {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("device-", i),
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "devices", Tolerations: s.tolerations()}})
	}
	_, err := s.w.write(ctx, func(ctx context.Context) error {
		_, err := s.w.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		return existing(err)
	})
	return err
}

// createNamed creates a pod that uses a claim, and reserves the claim for it.
func (s *drainScene) createNamed(ctx context.Context, name string, claim *resourceapi.ResourceClaim, held []oracle.Device) error {
	p := &drainPod{claim: claim.Name, Pod: &drainoracle.Pod{Name: name, Namespace: claim.Namespace, Node: held[0].Pool,
		App: pick(s, drainApps()...), Controlled: s.chance(80), Devices: held}}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appLabel: p.App, mineLabel: "drains"}}}
	if p.Controlled {
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: s.owners[p.Namespace], Controller: new(true)}}
	}
	object.Spec.NodeName, object.Spec.Containers = p.Node, container()
	object.Spec.TerminationGracePeriodSeconds = new(int64(s.intN(maxGrace + 1)))
	object.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "claim", ResourceClaimName: &claim.Name}}
	created, err := s.w.write(ctx, func(ctx context.Context) error {
		created, err := s.w.CoreV1().Pods(p.Namespace).Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = s.w.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		}
		if err == nil {
			p.UID = string(created.UID)
		}
		return err
	})
	if err != nil {
		return err
	}
	reserved, err := s.reserve(ctx, p, held)
	p.Begin = oracle.Moment{Earliest: created.Earliest, Latest: reserved.Latest}
	s.live, s.h.Pods = append(s.live, p), append(s.h.Pods, p.Pod)
	return err
}

// reserve allocates the claim of a pod and reserves it.
func (s *drainScene) reserve(ctx context.Context, p *drainPod, held []oracle.Device) (oracle.Moment, error) {
	allocation := &resourceapi.AllocationResult{}
	for i, device := range held {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprint("device-", i),
			Driver: device.Driver, Pool: device.Pool, Device: device.Name, Tolerations: s.tolerations()})
	}
	return s.w.write(ctx, func(ctx context.Context) error {
		claims := s.w.ResourceV1().ResourceClaims(p.Namespace)
		object, err := claims.Get(ctx, p.claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Status.Allocation = allocation
		if !slices.ContainsFunc(object.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return string(r.UID) == p.UID }) {
			object.Status.ReservedFor = append(object.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: types.UID(p.UID)})
		}
		_, err = claims.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// deletePod deletes a pod, as its user does it.
func (s *drainScene) deletePod(ctx context.Context) error {
	if len(s.live) == 0 {
		return nil
	}
	p := pick(s, s.live...)
	attempts, found := 0, true
	m, err := s.w.write(ctx, func(ctx context.Context) error {
		attempts++
		err := s.w.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(p.UID)})
		if apierrors.IsNotFound(err) {
			found = attempts > 1
		}
		return missing(err)
	})
	if err == nil && found && p.End.Never() {
		p.End = m
	}
	return err
}

// prune forgets the pods that are gone, deletes their claims, and replaces some by pods of the same name.
func (s *drainScene) prune(ctx context.Context, there map[string]bool) error {
	var gone []*drainPod
	s.live = slices.DeleteFunc(s.live, func(p *drainPod) bool {
		if !there[p.UID] {
			gone = append(gone, p)
		}
		return !there[p.UID]
	})
	for _, p := range gone {
		if slices.ContainsFunc(s.live, func(other *drainPod) bool { return other.claim == p.claim && other.Namespace == p.Namespace }) {
			continue
		}
		_, err := s.w.write(ctx, func(ctx context.Context) error {
			return missing(s.w.ResourceV1().ResourceClaims(p.Namespace).Delete(ctx, p.claim, metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
		devices := s.undrained(false, drainNodes()...)
		if !p.Controlled || len(devices) == 0 || s.over || !s.chance(40) {
			continue
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: s.name("claim"), Namespace: p.Namespace}}
		if err := s.createClaim(ctx, claim, 1); err != nil {
			return err
		}
		if err := s.createNamed(ctx, p.Name, claim, []oracle.Device{pick(s, devices...)}); err != nil {
			return err
		}
	}
	return nil
}

// block makes a budget allow no evictions.
func (s *drainScene) block(ctx context.Context) error {
	key := [2]string{pick(s, drainNamespaces()...), pick(s, drainApps()...)}
	if s.blocking[key] != nil {
		return nil
	}
	m, err := s.setBudget(ctx, key, never)
	if err != nil {
		return err
	}
	b := &drainoracle.Budget{Namespace: key[0], App: key[1], Protected: map[string]bool{}, Period: drainoracle.Period{Begin: m}}
	s.blocking[key] = b
	s.h.Budgets = append(s.h.Budgets, b)
	inForce, err := s.inForce(ctx, key)
	if err != nil || !inForce {
		return err
	}
	var pods *corev1.PodList
	m, err = s.w.write(ctx, func(ctx context.Context) (err error) {
		pods, err = s.w.CoreV1().Pods(key[0]).List(ctx, metav1.ListOptions{LabelSelector: appLabel + "=" + key[1]})
		return err
	})
	if err != nil {
		return err
	}
	b.InForce = m.Latest
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			b.Protected[string(pod.UID)] = true
		}
	}
	return nil
}

// inForce waits for the status of a budget that allows no evictions, and reports whether it came.
func (s *drainScene) inForce(ctx context.Context, key [2]string) (is bool, err error) {
	for deadline := time.Now().Add(5 * time.Second); !is && time.Now().Before(deadline); {
		longrun.Until(ctx, time.Now().Add(100*time.Millisecond))
		var have *policyv1.PodDisruptionBudget
		_, err := s.w.write(ctx, func(ctx context.Context) (err error) {
			have, err = s.w.PolicyV1().PodDisruptionBudgets(key[0]).Get(ctx, key[1], metav1.GetOptions{})
			return err
		})
		if err != nil {
			return false, err
		}
		is = have.Status.ObservedGeneration == have.Generation && have.Status.DisruptionsAllowed == 0
	}
	return is, nil
}

// allow makes a budget allow evictions again.
func (s *drainScene) allow(ctx context.Context) (err error) {
	for _, namespace := range drainNamespaces() {
		for _, app := range drainApps() {
			key := [2]string{namespace, app}
			if b := s.blocking[key]; b != nil && s.chance(30) {
				b.End, err = s.setBudget(ctx, key, 0)
				delete(s.blocking, key)
				return err
			}
		}
	}
	return nil
}

func (s *drainScene) setBudget(ctx context.Context, key [2]string, available int) (oracle.Moment, error) {
	body := fmt.Appendf(nil, `{"spec": {"minAvailable": %d}}`, available)
	return s.w.write(ctx, func(ctx context.Context) error {
		_, err := s.w.PolicyV1().PodDisruptionBudgets(key[0]).Patch(ctx, key[1], types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}
