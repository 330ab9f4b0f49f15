package review

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"unique"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/internal/serving/caller"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// maxDrivers and maxPools bound what is remembered. A cluster has a few drivers, and a pool of
// each on each node. Those that were seen first are kept, so that many other names do not
// displace them.
const (
	maxDrivers = 1024
	maxPools   = 32768
)

// SliceAuthors remembers who was first seen to publish for a driver, and in each of its pools.
// The zero value is empty and ready for use by several goroutines. See
// docs/decisions/0060-an-author-is-compared-by-driver-and-pool.md.
type SliceAuthors struct {
	mutex sync.Mutex
	first map[string]string
	// pools are kept by a hash, which users cannot predict.
	pools map[uint64]unique.Handle[string]
	seed  maphash.Seed
}

var _ validate.SliceAuthors = (*SliceAuthors)(nil)

// First returns the identity that was first seen to publish in a pool of a driver, or, if the
// pool is empty, for the driver.
func (a *SliceAuthors) First(driver, pool string) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if pool == "" || a.first == nil {
		return a.first[driver]
	}
	if identity, known := a.pools[a.keyOf(driver, pool)]; known {
		return identity.Value()
	}
	return ""
}

func (a *SliceAuthors) keyOf(driver, pool string) uint64 {
	return maphash.Comparable(a.seed, [2]string{driver, pool})
}

// see remembers the author of a slice if its driver, or its pool, has none yet.
func (a *SliceAuthors) see(driver, pool, user string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.first == nil {
		a.first, a.pools, a.seed = map[string]string{}, map[uint64]unique.Handle[string]{}, maphash.MakeSeed()
	}
	identity := caller.SliceIdentity(user)
	if a.first[driver] == "" {
		if len(a.first) >= maxDrivers {
			return
		}
		a.first[driver] = identity
	}
	key := a.keyOf(driver, pool)
	if _, known := a.pools[key]; !known && pool != "" && len(a.pools) < maxPools {
		a.pools[key] = unique.Make(identity)
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
	identity := caller.SliceIdentity(req.User.Username)
	if r.SliceAuthors.First(slice.Spec.Driver, "") == identity && r.SliceAuthors.First(slice.Spec.Driver, slice.Spec.Pool.Name) == identity {
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

// mergesPatches reports whether a write of a slice is one of r.PatchWriter that publishes nothing new.
func (k kindOf[T]) mergesPatches(r Reviewer, object *T, old func() (*T, error), req Request) (bool, error) {
	slice, is := any(object).(*resourceapi.ResourceSlice)
	if !is || r.PatchWriter == "" || req.User == nil || req.User.Username != r.PatchWriter {
		return false, nil
	}
	before, err := old()
	if err != nil {
		return false, err
	}
	stored, _ := any(before).(*resourceapi.ResourceSlice)
	return stored != nil && publishesSame(stored, slice), nil
}

// keepers are the controllers of Kubernetes that update objects of all kinds and keep what their authors
// wrote: the first takes out owners and finalizers, the second has objects stored in another version.
var keepers = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:storage-version-migrator-controller",
}

// keepsSlice reports whether a write of a slice is one of the keepers that publishes nothing: the spec stays as it is,
// and so do the annotations, which have the record of patches.
func keepsSlice(req Request) bool {
	if req.Kind.Kind != "ResourceSlice" || req.User == nil || !slices.Contains(keepers, req.User.Username) {
		return false
	}
	type kept struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	var is, was kept
	if json.Unmarshal(req.Object, &is) != nil || json.Unmarshal(req.Old, &was) != nil {
		return false
	}
	return bytes.Equal(is.Spec, was.Spec) && maps.Equal(is.Metadata.Annotations, was.Metadata.Annotations)
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
		known.see(slice.Spec.Driver, slice.Spec.Pool.Name, req.User.Username)
	}
}
