package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/drainoracle"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

const (
	drainDriver = "drain.example.com"
	// drainPace is the time between two operations, samplePeriod that between two samples.
	drainPace    = 300 * time.Millisecond
	samplePeriod = 2 * time.Second
	// maxDrainPods is the number of pods above which no pods are created.
	maxDrainPods = 160
	// maxDrains is the number of drains above which no drains are created, minDrainAge how old most of them
	// are when they are deleted.
	maxDrains   = 10
	minDrainAge = 150 * time.Second
	// maxRest is the longest time that a drain may take at the end of the campaign.
	maxRest = 2 * time.Minute
	// maxGrace is the longest grace period of a pod, in seconds.
	maxGrace = 5
	// appLabel and mineLabel are those of the pods.
	appLabel, mineLabel = "app", "campaign"
	// never is a minAvailable that allows no eviction.
	never = 1000
)

func drainNodes() (names []string) {
	for i := range 8 {
		names = append(names, fmt.Sprint("drain-", i))
	}
	return names
}

func drainDevices() (names []string) {
	for i := range 10 {
		names = append(names, fmt.Sprint("d-", i))
	}
	return names
}

func drainNamespaces() []string { return []string{"drains-a", "drains-b", "drains-c"} }
func drainApps() []string       { return []string{"train", "serve"} }

// A drainScene has drains, and pods on devices of a driver of its own.
type drainScene struct {
	script
	client dynamic.ResourceInterface
	h      *drainoracle.History
	// live are the pods that are not known to be gone, active the drains that are not deleted.
	live   []*drainPod
	active []*drain
	// owners are the controllers of the pods, by namespace.
	owners map[string]types.UID
	// blocking are the budgets that allow no eviction, by namespace and app.
	blocking map[[2]string]*drainoracle.Budget
	// stored are the rules of drains in the last sample, by name.
	stored map[string]drainoracle.Rule
	// ended are the drains that were Drained or Failed in the last sample.
	ended map[string]bool
	// ending are the pods that leave; over is true when no more pods are created.
	ending map[string]bool
	over   bool
	// checked is what the oracle has found.
	checked []drainoracle.Violation
	// working is sent to when pods leave, if the faults wait.
	working chan<- struct{}
}

type drain struct {
	*drainoracle.Drain
	created time.Time
}

func newDrainScene(w *world, seed uint64, working chan<- struct{}) *drainScene {
	return &drainScene{
		script: newScript(w, seed, 3), working: working,
		client: dynamic.NewForConfigOrDie(w.Config()).Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceDrainResource)),
		h: &drainoracle.History{Gone: map[string]time.Time{}, Left: map[string]bool{}, Work: drainWork, Observation: observation, Flight: flight,
			Leaving: maxGrace*time.Second + leaving},
		owners: map[string]types.UID{}, blocking: map[[2]string]*drainoracle.Budget{}, ending: map[string]bool{},
	}
}

// publish makes the nodes, whose pods take their grace period to end, the slices, and the namespaces with
// their budgets.
func (s *drainScene) publish(t *testing.T) {
	t.Helper()
	kubelets, err := nodes.Start(t.Context(), s.w.Config(), nodes.Options{Names: drainNodes(), Grace: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kubelets.Stop)
	for _, node := range drainNodes() {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec.Driver, slice.Spec.NodeName = drainDriver, &node
		slice.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
		for _, name := range drainDevices() {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
		}
		if _, err := s.w.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range drainNamespaces() {
		if err := s.furnish(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// furnish creates a namespace with budgets that allow evictions, and an object that controls pods.
func (s *drainScene) furnish(ctx context.Context, namespace string) error {
	if _, err := s.w.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	owner, err := s.w.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.owners[namespace] = owner.UID
	for _, app := range drainApps() {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}}
		b.Spec.MinAvailable = new(intstr.FromInt32(0))
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}}
		if _, err := s.w.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, b, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// run operates until ctx ends.
func (s *drainScene) run(ctx context.Context, t *testing.T) {
	s.play(ctx, t, drainPace, s.next, s.sample, samplePeriod)
}

// watch samples until a time, and until all that is due by now is done. It creates no more pods.
func (s *drainScene) watch(ctx context.Context, t *testing.T, end time.Time) {
	s.over = true
	now := time.Now()
	for _, d := range slices.Clone(s.active) {
		if s.h.Due(d.Drain, now).Sub(s.h.Settled(now, nil)) < maxRest {
			continue
		}
		if err := s.remove(ctx, d); err != nil {
			t.Error(err)
			return
		}
	}
	for ctx.Err() == nil && (time.Now().Before(end) || time.Now().Before(s.h.Settled(now, s.h.Drains))) {
		longrun.Until(ctx, time.Now().Add(samplePeriod))
		if err := s.sample(ctx); err != nil {
			t.Errorf("sample: %v", err)
			return
		}
	}
}

// next chooses an operation by its weight.
func (s *drainScene) next() operation {
	return s.choose([]operation{
		{"drains created", 8, s.createDrain},
		{"drains paused", 1, s.pauseDrain},
		{"drains resumed", 3, s.resumeDrain},
		{"drains deleted", 3, s.deleteDrain},
		{"budgets that block", 1, s.block},
		{"budgets that allow", 3, s.allow},
		{"rules of drains deleted or changed", 1, s.tamper},
		{"pods deleted", 3, s.deletePod},
		{"pods created", 60, s.createPod},
	})
}

// createDrain creates a drain of devices of one node or two, or of a whole pool.
func (s *drainScene) createDrain(ctx context.Context) error {
	if len(s.active) >= maxDrains {
		return nil
	}
	d, spec := s.newDrain()
	if len(d.Devices) == 0 {
		return nil
	}
	object := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: *spec}
	err := s.submit(ctx, d, object)
	if err != nil {
		return err
	}
	if spec.Deadline != nil {
		at := d.created.Add(spec.Deadline.After.Duration)
		d.Deadline = &drainoracle.Deadline{Moment: oracle.Moment{Earliest: at, Latest: at}, Action: string(spec.Deadline.Action)}
	}
	s.active = append(s.active, d)
	s.h.Drains = append(s.h.Drains, d.Drain)
	return nil
}

// newDrain makes the spec of a drain, and what the oracle knows of it. In one of seven cases it may
// share devices with other drains.
func (s *drainScene) newDrain() (*drain, *v1alpha1.DeviceDrainSpec) {
	d := &drain{Drain: &drainoracle.Drain{Name: s.name("drain")}}
	spec := &v1alpha1.DeviceDrainSpec{AtEnd: v1alpha1.EndHold, PodsWithoutController: v1alpha1.EvictPods}
	node, shared := pick(s, drainNodes()...), s.chance(15)
	if s.chance(25) {
		spec.Selector = &v1alpha1.DrainSelector{Driver: new(drainDriver), Pool: &node}
		d.Devices = s.undrained(shared, node)
		if len(d.Devices) < len(drainDevices()) {
			d.Devices = nil
		}
	} else {
		d.Devices = s.undrained(shared, node, pick(s, drainNodes()...))
		s.random.Shuffle(len(d.Devices), func(i, j int) { d.Devices[i], d.Devices[j] = d.Devices[j], d.Devices[i] })
		d.Devices = d.Devices[:min(len(d.Devices), 3+s.intN(6))]
		for _, device := range d.Devices {
			spec.Devices = append(spec.Devices, v1alpha1.DeviceName{Driver: device.Driver, Pool: device.Pool, Device: device.Name})
		}
	}
	d.PerMinute = pick(s, 6, 6, 10, 15, 30, 60)
	spec.EvictionsPerMinute = new(int32(d.PerMinute))
	if s.chance(35) {
		d.PerNamespace = pick(s, 1, 1, 2)
		spec.MaxPerNamespace = new(int32(d.PerNamespace))
	}
	if s.chance(35) {
		d.PerNode = pick(s, 1, 1, 2)
		spec.MaxPerNode = new(int32(d.PerNode))
	}
	if d.KeepsBare = s.chance(30); d.KeepsBare {
		spec.PodsWithoutController = v1alpha1.KeepPods
	}
	if d.Uncordons = s.chance(30); d.Uncordons {
		spec.AtEnd = v1alpha1.EndUncordon
	}
	if s.chance(30) {
		spec.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Duration(20+s.intN(90)) * time.Second},
			Action: pick(s, v1alpha1.DeadlineKeep, v1alpha1.DeadlineFail, v1alpha1.DeadlineDelete)}
	}
	d.DryRun = s.chance(4)
	spec.DryRun = d.DryRun
	return d, spec
}

// undrained are the devices of nodes that no drain has, or all.
func (s *drainScene) undrained(shared bool, of ...string) (devices []oracle.Device) {
	slices.Sort(of)
	for _, node := range slices.Compact(of) {
		for _, name := range drainDevices() {
			device := oracle.Device{Driver: drainDriver, Pool: node, Name: name}
			if shared || !s.drained(device) {
				devices = append(devices, device)
			}
		}
	}
	return devices
}

// drained reports whether a drain has a device.
func (s *drainScene) drained(device oracle.Device) bool {
	return slices.ContainsFunc(s.active, func(d *drain) bool { return slices.Contains(d.Devices, device) })
}

// pickDrain picks a drain that is in a state.
func (s *drainScene) pickDrain(is func(*drain) bool) *drain {
	var all []*drain
	for _, d := range s.active {
		if is(d) {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(s, all...)
}

// paused reports whether a drain is paused.
func (d *drain) paused() bool { return len(d.Pauses) > 0 && d.Pauses[len(d.Pauses)-1].End.Never() }

func (s *drainScene) pauseDrain(ctx context.Context) error {
	d := s.pickDrain(func(d *drain) bool { return !d.paused() })
	if d == nil {
		return nil
	}
	m, err := s.setPaused(ctx, d, true)
	d.Pauses = append(d.Pauses, drainoracle.Period{Begin: m})
	return err
}

func (s *drainScene) resumeDrain(ctx context.Context) error {
	d := s.pickDrain((*drain).paused)
	if d == nil {
		return nil
	}
	m, err := s.setPaused(ctx, d, false)
	d.Pauses[len(d.Pauses)-1].End = m
	return err
}

func (s *drainScene) setPaused(ctx context.Context, d *drain, paused bool) (oracle.Moment, error) {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"paused": paused}})
	if err != nil {
		return oracle.Moment{}, err
	}
	return s.w.write(ctx, func(ctx context.Context) error {
		_, err := s.client.Patch(ctx, d.Name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

// deleteDrain deletes a drain that has ended, or one of some age, or in one of sixteen cases any.
func (s *drainScene) deleteDrain(ctx context.Context) error {
	young := s.chance(6)
	d := s.pickDrain(func(d *drain) bool { return young || s.ended[d.Name] || time.Since(d.Begin.Latest) > minDrainAge })
	if d == nil {
		return nil
	}
	return s.remove(ctx, d)
}

func (s *drainScene) remove(ctx context.Context, d *drain) (err error) {
	d.End, err = s.w.write(ctx, func(ctx context.Context) error { return missing(s.client.Delete(ctx, d.Name, metav1.DeleteOptions{})) })
	s.active = slices.DeleteFunc(s.active, func(other *drain) bool { return other == d })
	return err
}
