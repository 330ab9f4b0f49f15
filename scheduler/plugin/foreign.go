package plugin

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// foreign finds pods with devices that another scheduler has bound: one with a name that no
// profile of this process has, or one with the name of a profile of ours.
type foreign struct {
	leading atomic.Bool

	mutex    sync.Mutex // of what follows
	profiles []string
	// patched are the profiles that have the plugin, for which reserved is complete.
	patched  []string
	reserved map[types.UID]string // the node for which a pod was reserved last
	reported map[string]time.Time // when a scheduler was reported last, by its name
}

func newForeign(profiles []string) *foreign {
	return &foreign{profiles: slices.Clone(profiles), reserved: map[types.UID]string{}, reported: map[string]time.Time{}}
}

// addPatched adds a profile that has the plugin.
func (f *foreign) addPatched(name string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.patched = append(f.patched, name)
}

func (f *foreign) isPatched(name string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Contains(f.patched, name)
}

// reserve remembers the node that this process has selected for a pod. It stays after the
// binding failed: the API server may have stored a binding whose answer was lost.
func (f *foreign) reserve(pod *corev1.Pod, node string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.reserved[pod.UID] = node
}

func (f *foreign) forget(pod *corev1.Pod) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.reserved, pod.UID)
}

// isForeign reports whether a pod that has just been bound shows another scheduler. For pods
// of our own profiles that is so if this process leads and has not selected that node. Each
// scheduler is reported again after repeatEvery.
func (f *foreign) isForeign(pod *corev1.Pod, now time.Time) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	name := pod.Spec.SchedulerName
	switch {
	case slices.Contains(f.patched, name):
		if !f.leading.Load() || f.reserved[pod.UID] == pod.Spec.NodeName {
			return false
		}
	case slices.Contains(f.profiles, name):
		return false
	}
	if before, ok := f.reported[name]; ok && now.Sub(before) < repeatEvery {
		return false
	}
	for name, at := range f.reported {
		if now.Sub(at) >= repeatEvery {
			delete(f.reported, name)
		}
	}
	f.reported[name] = now
	return true
}

// handler calls notify for a pod that another scheduler has bound. synced reports whether a pod
// was there before this process.
func (f *foreign) handler(synced func() bool, notify func(*corev1.Pod)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, object any) {
			before, after := old.(*corev1.Pod), object.(*corev1.Pod)
			if before.Spec.NodeName != "" || after.Spec.NodeName == "" || !usesDevices(after) {
				return
			}
			if synced() && f.isForeign(after, time.Now()) {
				notify(after)
			}
			f.forget(after)
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				f.forget(pod)
			}
		},
	}
}

// usesDevices reports whether a pod has claims, its own or those of its extended resources.
func usesDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

func foreignText(pod *corev1.Pod, own bool) string {
	who := fmt.Sprintf("scheduler %q", pod.Spec.SchedulerName)
	if own {
		who = fmt.Sprintf("another process that serves the profile %q", pod.Spec.SchedulerName)
	}
	return fmt.Sprintf("%s has bound pod %s/%s with ResourceClaims. Two processes that allocate devices allocate some of them twice: let one process serve all profiles",
		who, pod.Namespace, pod.Name)
}
