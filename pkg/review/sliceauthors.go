package review

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// maxDrivers bounds the drivers whose authors are remembered. A cluster has a few. Those that
// were seen first are kept, so that many other names do not displace them.
const maxDrivers = 1024

// SliceAuthors remembers who was first seen to publish for a driver. The zero value is empty
// and ready for use by several goroutines. See
// docs/decisions/0025-who-publishes-for-a-driver.md.
type SliceAuthors struct {
	mutex sync.Mutex
	first map[string]string
}

var _ validate.SliceAuthors = (*SliceAuthors)(nil)

// First returns the identity that was first seen to publish for a driver.
func (a *SliceAuthors) First(driver string) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.first[driver]
}

// see remembers the author of a slice if the driver has none yet.
func (a *SliceAuthors) see(driver, user string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.first == nil {
		a.first = map[string]string{}
	}
	if a.first[driver] == "" && len(a.first) < maxDrivers {
		a.first[driver] = validate.SliceIdentity(user)
	}
}

// sliceAuthors returns what the rules about a slice need of its author: nothing for other
// kinds, for components, and for an update that publishes nothing new, as that of a controller
// that has patches written into the slice.
func (k kindOf[T]) sliceAuthors(r Reviewer, object *T, old func() (*T, error), req Request) (validate.SliceAuthors, error) {
	slice, is := any(object).(*resourceapi.ResourceSlice)
	if !is || r.SliceAuthors == nil || req.User == nil || r.exemptions.system(req) {
		return nil, nil
	}
	if r.SliceAuthors.First(slice.Spec.Driver) == validate.SliceIdentity(req.User.Username) {
		return nil, nil
	}
	before, err := old()
	if err != nil {
		return nil, err
	}
	if stored, _ := any(before).(*resourceapi.ResourceSlice); stored != nil && publishesSame(stored, slice) {
		return nil, nil
	}
	return r.SliceAuthors, nil
}

// publishesSame reports whether two slices differ in attributes and capacity at most.
func publishesSame(a, b *resourceapi.ResourceSlice) bool {
	return apiequality.Semantic.DeepEqual(withoutValues(a), withoutValues(b))
}

func withoutValues(slice *resourceapi.ResourceSlice) resourceapi.ResourceSliceSpec {
	spec := slice.Spec
	spec.Devices = make([]resourceapi.Device, len(slice.Spec.Devices))
	for i, device := range slice.Spec.Devices {
		device.Attributes, device.Capacity = nil, nil
		spec.Devices[i] = device
	}
	return spec
}

// learn remembers the author of a slice that will be stored.
func (k kindOf[T]) learn(authors validate.SliceAuthors, object *T, req Request, answer Answer) {
	known, is := authors.(*SliceAuthors)
	if slice, isSlice := any(object).(*resourceapi.ResourceSlice); is && isSlice && !req.DryRun && !answer.Denied() {
		known.see(slice.Spec.Driver, req.User.Username)
	}
}
