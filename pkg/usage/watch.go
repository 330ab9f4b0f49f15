package usage

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// watchers are who wants to know of changes.
type watchers []*func(pod types.NamespacedName)

func (w watchers) tell(pod types.NamespacedName) {
	for _, changed := range w {
		(*changed)(pod)
	}
}

// Watch calls changed with the name of each pod that the index knows, and from then on of
// each that is new, has changed or is gone, or of which a claim has: its allocation, whom
// it is reserved for or who owns it. It is called after the index has changed and before
// another change: it must not block and not ask the index. No call comes after stop has
// returned.
func (i *Index) Watch(changed func(pod types.NamespacedName)) (stop func()) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for pod := range i.pods.All() {
		changed(pod.Key())
	}
	i.watchers = append(i.watchers, &changed)
	return func() {
		i.mutex.Lock()
		defer i.mutex.Unlock()
		i.watchers = slices.DeleteFunc(i.watchers, func(w *func(types.NamespacedName)) bool { return w == &changed })
	}
}
