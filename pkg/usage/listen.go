package usage

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// Informers are what an [Index] listens to. Budgets may be nil.
type Informers struct {
	Claims, Pods, Budgets cache.SharedIndexInformer
}

// Listen tells the index of all that the informers know and learn. synced are done once
// it knows what there was; stop ends the listening.
func (i *Index) Listen(informers Informers) (synced []cache.DoneChecker, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var all []error
		for _, s := range stops {
			all = append(all, s())
		}
		return errors.Join(all...)
	}
	for _, l := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{informers.Claims, handler(i.SetClaim, i.DeleteClaim)},
		{informers.Pods, handler(i.SetPod, i.DeletePod)},
		{informers.Budgets, handler(i.SetBudget, i.DeleteBudget)},
	} {
		if l.informer == nil {
			continue
		}
		handle, err := l.informer.AddEventHandler(l.handler)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		synced = append(synced, handle.HasSyncedChecker())
		stops = append(stops, func() error { return l.informer.RemoveEventHandler(handle) })
	}
	return synced, stop, nil
}

// handler tells of objects of one type.
func handler[T *resourceapi.ResourceClaim | *corev1.Pod | *policyv1.PodDisruptionBudget](set func(T), remove func(namespace, name string)) cache.ResourceEventHandler {
	changed := func(object any) {
		if object, ok := object.(T); ok {
			set(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: func(object any) {
			// The key is all there is of an object whose deletion was missed.
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				remove(name.Namespace, name.Name)
			}
		},
	}
}
