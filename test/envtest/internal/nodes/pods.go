package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// pods moves the pods of the nodes through their lives. The queue's keys are
// the pods' namespace/name.
type pods struct {
	options Options
	nodes   sets.Set[string]
	client  kubernetes.Interface
	pods    cache.SharedIndexInformer
	claims  cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newPods(client kubernetes.Interface, o Options, names sets.Set[string]) *pods {
	bound := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	return &pods{
		options: o,
		nodes:   names,
		client:  client,
		pods:    bound.Core().V1().Pods().Informer(),
		claims:  informers.NewSharedInformerFactory(client, 0).Resource().V1().ResourceClaims().Informer(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// run works until ctx is done.
func (p *pods) run(ctx context.Context) {
	handle := func(informer cache.SharedIndexInformer, enqueue func(any)) {
		// Adding a handler fails only for an informer that has been stopped.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    enqueue,
			UpdateFunc: func(_, obj any) { enqueue(obj) },
		})
	}
	handle(p.pods, p.enqueuePod)
	handle(p.claims, p.enqueueUsers)
	var running sync.WaitGroup
	running.Go(func() { p.pods.RunWithContext(ctx) })
	running.Go(func() { p.claims.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), p.pods.HasSynced, p.claims.HasSynced) {
		for range p.options.Workers {
			running.Go(func() {
				for p.next(ctx) {
				}
			})
		}
	}
	<-ctx.Done()
	p.queue.ShutDown()
	running.Wait()
}

func (p *pods) waitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), p.pods.HasSynced, p.claims.HasSynced) {
		return errors.Join(errors.New("nodes: pods and claims could not be listed"), ctx.Err())
	}
	return nil
}

func (p *pods) enqueuePod(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if ok && p.ours(pod) {
		p.queue.Add(cache.MetaObjectToName(pod).String())
	}
}

// ours reports whether a pod is run here.
func (p *pods) ours(pod *corev1.Pod) bool {
	return p.nodes.Has(pod.Spec.NodeName) && (p.options.Except == nil || !p.options.Except(pod))
}

// enqueueUsers enqueues the pods that a claim is reserved for.
func (p *pods) enqueueUsers(obj any) {
	claim, ok := obj.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup == "" && user.Resource == "pods" {
			p.queue.Add(cache.NewObjectName(claim.Namespace, user.Name).String())
		}
	}
}

// next works on one pod; it returns false when the queue is shut down.
func (p *pods) next(ctx context.Context) bool {
	key, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	defer p.queue.Done(key)
	again, err := p.sync(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if !apierrors.IsConflict(err) {
			klog.FromContext(ctx).Error(err, "Pod on a stand-in node", "pod", key)
		}
		p.queue.AddRateLimited(key)
	case again > 0:
		p.queue.AddAfter(key, again)
	default:
		p.queue.Forget(key)
	}
	return true
}

// sync does what is due for a pod and returns when the next thing is.
func (p *pods) sync(ctx context.Context, key string) (again time.Duration, err error) {
	obj, exists, err := p.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || !p.ours(pod) {
		return 0, nil
	}
	step, again := decide(pod, p.claimOf(pod), p.options.Grace, time.Now())
	switch step {
	case begin:
		return 0, p.updateStatus(ctx, pod, running(pod, time.Now()))
	case end:
		return 0, p.end(ctx, pod)
	default:
		return again, nil
	}
}

// claimOf looks up a claim in the pod's namespace.
func (p *pods) claimOf(pod *corev1.Pod) func(name string) *resourceapi.ResourceClaim {
	return func(name string) *resourceapi.ResourceClaim {
		obj, _, err := p.claims.GetStore().GetByKey(cache.NewObjectName(pod.Namespace, name).String())
		if err != nil {
			return nil
		}
		claim, _ := obj.(*resourceapi.ResourceClaim)
		return claim
	}
}

func (p *pods) updateStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	pod = pod.DeepCopy()
	pod.Status = status
	_, err := p.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// end reports the pod as finished and removes it, if it is still the same.
func (p *pods) end(ctx context.Context, pod *corev1.Pod) error {
	if !finished(pod) {
		if err := p.updateStatus(ctx, pod, terminated(pod, time.Now())); err != nil {
			return err
		}
	}
	now := int64(0)
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another pod of that name
	}
	return err
}
