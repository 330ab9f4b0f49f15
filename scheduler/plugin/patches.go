package plugin

import (
	"context"
	"errors"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/scheduler/view"
)

const (
	// timeout is how long pods with claims wait for patches to be read when the API
	// server answers with errors. That there are none, or that they must not be read,
	// ends the wait at once.
	timeout = 30 * time.Second
	// window is how long changes of patches are gathered before they count.
	window = 5 * time.Millisecond
)

// errNotRead keeps pods with claims from being tried until patches have been read.
var errNotRead = errors.New("ResourceSlicePatches have not been read yet")

// patches keeps the view of all profiles up to date.
type patches struct {
	view      view.View
	reader    *tracker.PatchReader
	published fwk.ResourceSliceLister
	classes   resourcelisters.DeviceClassLister
	synced    chan struct{} // closed once the view need not be waited for
	report    *report

	mutex    sync.Mutex // of what follows
	changed  map[string]bool
	written  map[string]bool // the slices that patched values may be written into, by name
	wake     chan struct{}
	profiles []profile
}

// startPatches starts to read patches.
func startPatches(ctx context.Context, handle fwk.Handle, leads func() bool, report *report) (*patches, error) {
	logger := klog.FromContext(ctx).WithName("patches")
	reader, err := tracker.NewPatchReader(handle.KubeConfig(), logger)
	if err != nil {
		return nil, err
	}
	classes := handle.SharedInformerFactory().Resource().V1().DeviceClasses()
	p := &patches{
		reader: reader, published: handle.SharedDRAManager().ResourceSlices(), classes: classes.Lister(),
		synced: make(chan struct{}), wake: make(chan struct{}, 1), changed: map[string]bool{}, written: map[string]bool{},
		report: report,
	}
	noted, err := reader.Informer.AddEventHandler(handlers(func(object any) { p.note(nameOf(object)) }))
	if err != nil {
		return nil, err
	}
	named, err := classes.Informer().AddEventHandler(handlers(func(object any) { p.noteClass(nameOf(object)) }))
	if err != nil {
		return nil, err
	}
	listed, err := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer().AddEventHandler(p.noteSlices())
	if err != nil {
		return nil, err
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(report.foreign.handler(pods.HasSynced, report.tellForeign)); err != nil {
		return nil, err
	}
	go reader.Run(ctx)
	go announce(ctx, handle.ClientSet(), leads, &report.foreign.leading)
	go p.run(ctx, noted, named, listed)
	go p.report.run(ctx, p)
	return p, nil
}

// handlers calls note for whatever happens to an object.
func handlers(note func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }, DeleteFunc: note}
}

func nameOf(object any) string {
	name, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	return name
}

// note remembers that a patch may have changed.
func (p *patches) note(name string) {
	p.mutex.Lock()
	p.changed[name] = true
	p.mutex.Unlock()
	p.wakeUp()
}

func (p *patches) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// noteSlices remembers which slices patched values may be written into.
func (p *patches) noteSlices() cache.ResourceEventHandler {
	there := func(object any) {
		if slice, ok := object.(*resourceapi.ResourceSlice); ok {
			written := slice.Annotations[record.Annotation] != ""
			if p.noteSlice(slice.Name, written); written {
				p.report.materialized(slice)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: there, UpdateFunc: func(_, object any) { there(object) },
		DeleteFunc: func(object any) { p.noteSlice(nameOf(object), false) },
	}
}

func (p *patches) noteSlice(name string, written bool) {
	p.mutex.Lock()
	changes := p.written[name] != written
	if p.written[name] = true; !written {
		delete(p.written, name)
	}
	p.mutex.Unlock()
	if changes {
		p.wakeUp()
	}
}

// noteClass remembers that the patches of a class may select other devices.
func (p *patches) noteClass(class string) {
	for _, object := range p.reader.Informer.GetStore().List() {
		patch := object.(*v1alpha1.ResourceSlicePatch)
		if filter := patch.Spec.Devices.Filter; filter != nil && filter.DeviceClassName != nil && *filter.DeviceClassName == class {
			p.note(patch.Name)
		}
	}
}

// run works changes in until ctx ends, when it has waited for patches, classes and slices.
func (p *patches) run(ctx context.Context, patches, classes, slices cache.ResourceEventHandlerRegistration) {
	p.wait(ctx, patches, classes, slices)
	p.work(ctx)
	close(p.synced)
	p.requeue()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		gathered := time.NewTimer(window)
		select {
		case <-ctx.Done():
			gathered.Stop()
			return
		case <-gathered.C:
		}
		if p.work(ctx) {
			p.requeue()
		}
	}
}

// wait returns when all patches and the rest have been noted, or when there is no sense in waiting
// for patches. For the rest there is no timeout: kube-scheduler itself does not begin without it.
func (p *patches) wait(ctx context.Context, patches cache.ResourceEventHandlerRegistration, rest ...cache.ResourceEventHandlerRegistration) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-patches.HasSyncedChecker().Done():
	case <-p.reader.Unavailable():
	case <-limited.Done():
	}
	for _, noted := range rest {
		select {
		case <-noted.HasSyncedChecker().Done():
		case <-ctx.Done():
		}
	}
}

// work takes in what has changed and reports whether a device may look different.
func (p *patches) work(ctx context.Context) bool {
	p.mutex.Lock()
	names, written := p.changed, len(p.written) > 0
	p.changed = map[string]bool{}
	p.mutex.Unlock()
	changed := p.view.Written(written)
	for name := range names {
		if p.take(name) {
			changed = true
		}
	}
	p.report.patches.Store(int64(p.view.Len()))
	if !changed {
		return false
	}
	published, err := p.published.ListWithDeviceTaintRules()
	if err != nil {
		// Before the slices have been read; then List finds all of them new.
		klog.FromContext(ctx).V(2).Info("Patches apply as soon as slices are synced", "err", err)
	}
	p.view.Rebuild(published, time.Now())
	return true
}

// take takes in one patch as it is now.
func (p *patches) take(name string) bool {
	object, exists, err := p.reader.Informer.GetStore().GetByKey(name)
	if err != nil || !exists {
		return p.view.Delete(name)
	}
	patch := object.(*v1alpha1.ResourceSlicePatch)
	var class *resourceapi.DeviceClass
	if filter := patch.Spec.Devices.Filter; filter != nil && filter.DeviceClassName != nil {
		class, _ = p.classes.Get(*filter.DeviceClassName) // its only error is that there is none
	}
	return p.view.Put(patch, class)
}

// isSettled reports whether the view is complete, so that nothing waits for it.
func (p *patches) isSettled() bool {
	select {
	case <-p.synced:
		return true
	default:
		return false
	}
}

// list returns slices with patches applied.
func (p *patches) list(published []*resourceapi.ResourceSlice) ([]*resourceapi.ResourceSlice, error) {
	if !p.isSettled() {
		return nil, errNotRead
	}
	return p.view.List(published, time.Now()), nil
}
