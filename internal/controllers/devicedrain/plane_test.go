package devicedrain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/devicedrain"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const (
	gpuDriver = "gpu.example.com"
	grace     = 2 * time.Second
)

// A plane is a control plane in a bubble of time: what of it a drain sees. It can fail and
// stop in ways that the real one of test/envtest/drain cannot be made to.
type plane struct {
	*testing.T
	begin time.Time
	// lag is how late the index is.
	lag time.Duration
	// budgetLag is how late the drains see what a budget allows.
	budgetLag time.Duration

	mutex              sync.Mutex
	sources            map[string]*cachetesting.FakeControllerSource
	drains             map[string]*v1alpha1.DeviceDrain
	rules              map[string]*resourceapi.DeviceTaintRule
	pods               map[string]*corev1.Pod
	claims             map[string]*resourceapi.ResourceClaim
	budgets            map[string]*policyv1.PodDisruptionBudget
	serial             int
	definition         *unstructured.Unstructured
	requests           requestPlane
	serverVersion      string
	notServed          bool
	refuse             map[string]error
	hang               map[string]bool
	definitionReads    int
	overBudget         int
	counts             int
	countSeen          map[string]int
	evicted, deleted   map[string]int
	order              []string
	times, writes      []time.Duration
	calls              []string
	replace            func(gone *corev1.Pod)
	killAt             int
	killed, killBefore bool
	statusConflicts    int
	// slowStatus is a drain whose status takes 3 s to arrive.
	slowStatus string
	// latencies are how long the next writes of a status take to arrive.
	latencies      []time.Duration
	controller     context.CancelFunc
	ended          chan struct{}
	events         *record.FakeRecorder
	thresholds     guard.Thresholds
	namespaceOf    map[string]string
	highestLeaving map[string]int
	// foresight may be nil.
	foresight func() *guard.Stranded
}

// inPlane runs a test with devices gpu-0 to gpu-(n-1), and a controller.
func inPlane(t *testing.T, test func(p *plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{T: t, begin: time.Now(), sources: map[string]*cachetesting.FakeControllerSource{}, drains: map[string]*v1alpha1.DeviceDrain{},
			rules: map[string]*resourceapi.DeviceTaintRule{}, pods: map[string]*corev1.Pod{}, claims: map[string]*resourceapi.ResourceClaim{},
			budgets: map[string]*policyv1.PodDisruptionBudget{}, refuse: map[string]error{}, hang: map[string]bool{}, evicted: map[string]int{}, deleted: map[string]int{},
			highestLeaving: map[string]int{}, countSeen: map[string]int{}, thresholds: guard.Thresholds{Pods: 100, Namespaces: 100, Percent: 100}, replace: func(*corev1.Pod) {}}
		p.definition = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "devicedrains.dra-steward.io", "creationTimestamp": p.begin.Add(-time.Hour).UTC().Format(time.RFC3339)}}}
		for _, kind := range []string{"drains", "rules", "pods", "index", "claims", "budgets", "slices"} {
			p.sources[kind] = cachetesting.NewFakeControllerSource()
		}
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		slice.Spec.Driver, slice.Spec.NodeName = gpuDriver, new("node")
		slice.Spec.Pool = resourceapi.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1}
		for i := range 16 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
		}
		p.sources["slices"].Add(slice)
		p.events = record.NewFakeRecorder(1000)
		p.start()
		test(p)
		p.stop()
		for _, source := range p.sources {
			source.Shutdown()
		}
	})
}

// start runs a controller.
func (p *plane) start() {
	p.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(p.Context(), logr.Discard()))
	informer := func(kind string, of runtime.Object) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(p.sources[kind], of, 0, nil)
	}
	run := &process{plane: p, stop: cancel}
	typed := fake.NewClientset()
	typed.PrependReactor("create", "pods/eviction", run.evict)
	typed.PrependReactor("delete", "pods", run.remove)
	run.serveRequests(typed)
	untyped := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	untyped.PrependReactor("*", "devicetaintrules", run.rule)
	untyped.PrependReactor("get", "customresourcedefinitions", run.readDefinition)
	options := devicedrain.Options{
		Drains: run, Rules: untyped, Client: slowClient{typed, p}, Usage: &usage.Index{},
		TaintRules: informer("rules", &resourceapi.DeviceTaintRule{}), Claims: informer("claims", &resourceapi.ResourceClaim{}),
		Pods: informer("pods", &corev1.Pod{}), Budgets: informer("budgets", &policyv1.PodDisruptionBudget{}),
		Thresholds: p.thresholds, Settings: drain.Delays{}, Recorder: p.events, Foresight: p.foresees,
	}
	slices := informer("slices", &resourceapi.ResourceSlice{})
	options.Tracker = tracker.New(tracker.Options{Sources: tracker.Sources{Slices: slices, Rules: options.TaintRules}})
	late := informer("index", &corev1.Pod{})
	synced, unlisten, err := options.Usage.Listen(usage.Informers{Claims: options.Claims, Pods: late, Budgets: options.Budgets})
	if err != nil {
		p.Fatal(err)
	}
	options.UsageSynced = synced
	controller, err := devicedrain.New(options)
	if err != nil {
		p.Fatal(err)
	}
	var running sync.WaitGroup
	for _, what := range []cache.SharedIndexInformer{options.TaintRules, options.Claims, options.Pods, late, options.Budgets, slices} {
		running.Go(func() { what.RunWithContext(ctx) })
	}
	for _, what := range []func(context.Context) error{options.Tracker.Run, controller.Run} {
		running.Go(func() {
			if err := what(ctx); err != nil {
				p.Error(err)
			}
		})
	}
	p.mutex.Lock()
	p.killed, p.controller, p.ended = false, cancel, make(chan struct{})
	ended := p.ended
	p.mutex.Unlock()
	go func() {
		running.Wait()
		_ = unlisten() // the informers have ended
		close(ended)
	}()
}

func (p *plane) stop() {
	synctest.Wait()
	p.mutex.Lock()
	cancel, ended := p.controller, p.ended
	p.mutex.Unlock()
	cancel()
	<-ended
}

// pass lets time pass, and waits for the result. A controller that was killed meanwhile is
// followed by another.
func (p *plane) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		p.mutex.Lock()
		killed := p.killed
		p.mutex.Unlock()
		if killed {
			p.stop()
			p.start()
			continue
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		<-time.After(min(left, time.Second))
	}
}

// A process is one run of the controller: what it asks once it was killed is not heard.
type process struct {
	*plane
	stop context.CancelFunc
	dead bool
}

var errKilled = errors.New("the connection was lost")

// call carries out a call of the controller, unless it is killed before; or it is killed
// after, so that it does not learn the result.
func (r *process) call(what string, do func() (runtime.Object, error)) (bool, runtime.Object, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.dead {
		return true, nil, errKilled
	}
	r.calls = append(r.calls, what)
	now := r.killAt == len(r.calls)
	if now {
		r.dead, r.killed = true, true
		r.stop()
		if r.killBefore {
			return true, nil, errKilled
		}
	}
	object, err := do()
	if now {
		return true, nil, errKilled
	}
	return true, object, err
}

// latency takes the next one.
func (r *process) latency() (next time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.latencies) > 0 {
		next, r.latencies = r.latencies[0], r.latencies[1:]
	}
	return next
}

// Informer and UpdateStatus are the API of drains.
func (r *process) Informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(r.sources["drains"], &v1alpha1.DeviceDrain{}, 0, nil)
}

func (r *process) UpdateStatus(_ context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	<-time.After(r.latency())
	if d.Name == r.slowStatus {
		<-time.After(3 * time.Second)
	}
	_, object, err := r.call("status", func() (runtime.Object, error) {
		r.writes = append(r.writes, time.Since(r.begin))
		is := r.drains[d.Name]
		if r.statusConflicts > 0 || is != nil && is.ResourceVersion != d.ResourceVersion {
			r.statusConflicts--
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "devicedrains"}, d.Name, errors.New("it has changed"))
		}
		if is == nil || is.UID != d.UID {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "devicedrains"}, d.Name)
		}
		is = is.DeepCopy()
		is.Status = *d.Status.DeepCopy()
		r.storeDrain(is)
		return is.DeepCopy(), nil
	})
	if err != nil {
		return nil, err
	}
	return object.(*v1alpha1.DeviceDrain), nil
}

func (p *plane) storeDrain(d *v1alpha1.DeviceDrain) {
	p.sources["drains"].Modify(d)
	p.drains[d.Name] = d
}

// rule is the API of DeviceTaintRules.
func (r *process) rule(action clienttesting.Action) (bool, runtime.Object, error) {
	return r.call(action.GetVerb()+" rule", func() (runtime.Object, error) {
		if r.notServed || action.GetResource().Version != "v1" {
			return nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "")
		}
		switch action := action.(type) {
		case clienttesting.CreateAction:
			rule := &resourceapi.DeviceTaintRule{}
			object := action.GetObject().(*unstructured.Unstructured)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, rule); err != nil {
				return nil, err
			}
			if r.rules[rule.Name] != nil {
				return nil, apierrors.NewAlreadyExists(action.GetResource().GroupResource(), rule.Name)
			}
			rule.UID, rule.CreationTimestamp = r.uid("rule"), metav1.Now()
			r.storeRule(rule)
			return object, nil
		}
		name := action.(interface{ GetName() string }).GetName()
		if r.rules[name] == nil {
			return nil, apierrors.NewNotFound(action.GetResource().GroupResource(), name)
		}
		switch action := action.(type) {
		case clienttesting.PatchAction:
			rule := r.rules[name].DeepCopy()
			if err := json.Unmarshal(action.GetPatch(), rule); err != nil {
				return nil, err
			}
			if rule.Spec.Taint.TimeAdded == nil {
				rule.Spec.Taint.TimeAdded = new(metav1.Now())
			}
			r.storeRule(rule)
			return &unstructured.Unstructured{}, nil
		case clienttesting.DeleteAction:
			if err := r.refuse["rules"]; err != nil {
				return nil, err
			}
			r.dropRule(name)
			return nil, nil
		}
		return nil, fmt.Errorf("unexpected %s of a rule", action.GetVerb())
	})
}

func (p *plane) storeRule(rule *resourceapi.DeviceTaintRule) {
	p.sources["rules"].Modify(rule)
	p.rules[rule.Name] = rule
}

func (p *plane) dropRule(name string) {
	p.sources["rules"].Delete(p.rules[name].DeepCopy())
	delete(p.rules, name)
}

func (r *process) readDefinition(clienttesting.Action) (bool, runtime.Object, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.definitionReads++
	if r.definition == nil {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, "")
	}
	return true, r.definition.DeepCopy(), nil
}

// evict is the Eviction API: it holds evictions against the UID and the budgets.
func (r *process) evict(action clienttesting.Action) (bool, runtime.Object, error) {
	eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
	return r.leave("evict", eviction.Name, *eviction.DeleteOptions, r.evicted)
}

// remove is the deletion of a pod.
func (r *process) remove(action clienttesting.Action) (bool, runtime.Object, error) {
	deletion := action.(clienttesting.DeleteActionImpl)
	return r.leave("delete", deletion.Name, deletion.DeleteOptions, r.deleted)
}

func (r *process) leave(verb, name string, options metav1.DeleteOptions, by map[string]int) (bool, runtime.Object, error) {
	return r.call(verb+" "+name, func() (runtime.Object, error) {
		pod := r.pods[name]
		if err := r.refuse[name]; err != nil {
			return nil, err
		}
		switch {
		case options.Preconditions == nil || options.Preconditions.UID == nil:
			r.Errorf("%s %s without its UID", verb, name)
		case pod == nil:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
		case pod.UID != *options.Preconditions.UID:
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("another UID"))
		}
		if !slices.ContainsFunc(r.evicting(), func(p v1alpha1.DrainPod) bool { return p.UID == pod.UID }) {
			r.Errorf("%s %s, which no status says", verb, name)
		}
		if verb == "evict" && !r.allowed(pod) {
			r.overBudget++
			return nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
		}
		again := verb == "delete" && pod.DeletionTimestamp != nil && options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 30
		if by[name]++; by[name] > 1 || pod.DeletionTimestamp != nil && !again {
			r.Errorf("%s %s twice", verb, name)
		}
		r.order, r.times = append(r.order, name), append(r.times, time.Since(r.begin))
		r.leaves(pod, options.GracePeriodSeconds)
		return nil, nil
	})
}

// evicting are the pods that stand in a status.
func (p *plane) evicting() (all []v1alpha1.DrainPod) {
	for _, d := range p.drains {
		all = append(all, d.Status.Evicting...)
	}
	return all
}

// leaves ends a pod after a while, and what is its own.
func (p *plane) leaves(pod *corev1.Pod, seconds *int64) {
	pod = pod.DeepCopy()
	lasts := grace
	if seconds = cmp.Or(seconds, pod.Spec.TerminationGracePeriodSeconds); seconds != nil {
		lasts = time.Duration(*seconds) * time.Second
	}
	pod.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(lasts)))
	p.storePod(pod)
	leaving := map[string]int{}
	for _, pod := range p.pods {
		if pod.DeletionTimestamp != nil {
			leaving[pod.Namespace]++
		}
	}
	for namespace, n := range leaving {
		p.highestLeaving[namespace] = max(p.highestLeaving[namespace], n)
	}
	time.AfterFunc(lasts, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		delete(p.pods, pod.Name)
		p.sources["pods"].Delete(pod.DeepCopy())
		p.indexed(func() { p.sources["index"].Delete(pod.DeepCopy()) })
		p.replace(pod)
		for _, claim := range p.claims {
			users := len(claim.Status.ReservedFor)
			claim = claim.DeepCopy()
			claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
			switch {
			case len(claim.Status.ReservedFor) == users:
				continue
			case len(claim.Status.ReservedFor) == 0:
				delete(p.claims, claim.Name)
				p.sources["claims"].Delete(claim)
			default:
				p.storeClaim(claim)
			}
		}
		p.count()
	})
	p.count()
}

func (p *plane) storePod(pod *corev1.Pod) {
	p.sources["pods"].Modify(pod)
	p.indexed(func() { p.sources["index"].Modify(pod.DeepCopy()) })
	p.pods[pod.Name] = pod
}

// indexed shows something to the index of who holds what, which may be late.
func (p *plane) indexed(show func()) {
	if p.lag == 0 {
		show()
		return
	}
	time.AfterFunc(p.lag, show)
}

func (p *plane) storeClaim(claim *resourceapi.ResourceClaim) {
	p.sources["claims"].Modify(claim)
	p.claims[claim.Name] = claim
}

func (p *plane) uid(kind string) types.UID {
	p.serial++
	return types.UID(fmt.Sprint(kind, "-", p.serial))
}

// pod runs with a claim for a device: its own, or one of a name that others have, too.
func (p *plane) pod(owner string, device int, shared string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", UID: p.uid("pod"), CreationTimestamp: metav1.Now(), Labels: map[string]string{"app": owner}}}
	if in := p.namespaceOf[owner]; in != "" {
		pod.Namespace = in
	}
	pod.Name = fmt.Sprint(owner, "-", p.serial)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	name := shared
	if name == "" {
		name = pod.Name
	}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	claim := p.claims[name].DeepCopy()
	if claim == nil {
		claim = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, UID: p.uid("claim"), CreationTimestamp: metav1.Now()}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: gpuDriver, Pool: "node", Device: fmt.Sprint("gpu-", device)}}}}
		if shared == "" {
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
		}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	p.storePod(pod)
	p.storeClaim(claim)
	p.count()
	return pod
}

// budget wants a number of the pods of an owner to be ready.
func (p *plane) budget(name, owner string, minimum int) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: p.uid("budget")}}
	b.Spec.MinAvailable = new(intstr.FromInt(minimum))
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": owner}}
	p.budgets[name] = b
	p.count()
}

// count is the disruption controller.
func (p *plane) count() {
	for name, b := range p.budgets {
		b = b.DeepCopy()
		ready := int32(0)
		for _, pod := range p.pods {
			if pod.Labels["app"] == b.Spec.Selector.MatchLabels["app"] && pod.DeletionTimestamp == nil {
				ready++
			}
		}
		b.Status.CurrentHealthy, b.Status.DesiredHealthy = ready, b.Spec.MinAvailable.IntVal
		b.Status.DisruptionsAllowed = max(0, ready-b.Spec.MinAvailable.IntVal)
		p.budgets[name] = b
		if p.budgetLag == 0 {
			p.sources["budgets"].Modify(b)
			continue
		}
		p.counts++
		n := p.counts
		time.AfterFunc(p.budgetLag, func() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			if n > p.countSeen[name] { // timers of the same moment fire in any order
				p.countSeen[name] = n
				p.sources["budgets"].Modify(b.DeepCopy())
			}
		})
	}
}

func (p *plane) allowed(pod *corev1.Pod) bool {
	for _, b := range p.budgets {
		if b.Spec.Selector.MatchLabels["app"] == pod.Labels["app"] && b.Status.DisruptionsAllowed == 0 {
			return false
		}
	}
	return true
}

// do changes the world.
func (p *plane) do(change func()) {
	p.mutex.Lock()
	change()
	p.mutex.Unlock()
	synctest.Wait()
}

// drain creates a drain of the first devices.
func (p *plane) drain(name string, devices int, change func(*v1alpha1.DeviceDrainSpec)) {
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: name, UID: p.uid("drain"), Generation: 1, CreationTimestamp: metav1.Now()}}
	for i := range devices {
		d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName{Driver: gpuDriver, Pool: "node", Device: fmt.Sprint("gpu-", i)})
	}
	if change != nil {
		change(&d.Spec)
	}
	p.do(func() { p.storeDrain(d) })
}

// change changes the spec of a drain.
func (p *plane) change(name string, change func(*v1alpha1.DeviceDrainSpec)) {
	p.do(func() {
		d := p.drains[name].DeepCopy()
		d.Generation++
		change(&d.Spec)
		p.storeDrain(d)
	})
}

func (p *plane) get(name string) *v1alpha1.DeviceDrain {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.drains[name].DeepCopy()
}

// expect compares conditions, as "Type=True Reason".
func (p *plane) expect(name string, want ...string) {
	p.Helper()
	d := p.get(name)
	var have []string
	for _, c := range d.Status.Conditions {
		have = append(have, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	for _, one := range want {
		if !slices.Contains(have, one) {
			p.Errorf("after %s: no condition %s in %q", time.Since(p.begin), one, have)
		}
	}
}

// went returns who went in order, and when, in seconds since the beginning.
func (p *plane) went() (order []string, seconds []int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, at := range p.times {
		seconds = append(seconds, int(at.Seconds()))
	}
	return slices.Clone(p.order), seconds
}

// said are the events so far.
func (p *plane) said() (all []string) {
	for {
		select {
		case e := <-p.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}
