package materialize

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/patch"
)

// keptBytes bounds what is remembered of slices, of which a full one needs almost 1 MB. What
// does not fit is evaluated at each write.
const keptBytes = 32 << 20

// About how much memory a device, an attribute or a capacity needs, and what one patch says of
// a device.
const (
	bytesPerEntry   = 200
	bytesPerVerdict = 4
)

// evaluations remember what expressions say of the devices of slices, by the names of these:
// most writes of a slice change few of its devices. The zero value is ready for use.
type evaluations struct {
	mutex sync.Mutex
	kept  map[string]evaluated
	bytes int
}

type evaluated struct {
	evaluation *patch.Evaluation
	bytes      int
}

// take returns what is known of a slice, and forgets it: an Evaluation is for one goroutine.
func (e *evaluations) take(slice string) *patch.Evaluation {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.remove(slice)
}

func (e *evaluations) remove(slice string) *patch.Evaluation {
	was := e.kept[slice]
	e.bytes -= was.bytes
	delete(e.kept, slice)
	return was.evaluation
}

// put remembers what a number of patches say of a slice.
func (e *evaluations) put(slice *resourceapi.ResourceSlice, evaluation *patch.Evaluation, patches int) {
	bytes := bytesOf(slice, patches)
	if slice.Name == "" || bytes > keptBytes {
		return
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.kept == nil {
		e.kept = map[string]evaluated{}
	}
	e.remove(slice.Name)
	for other := range e.kept { // any: writes come in turn, so that the oldest is needed next
		if e.bytes+bytes <= keptBytes {
			break
		}
		e.remove(other)
	}
	e.kept[slice.Name] = evaluated{evaluation, bytes}
	e.bytes += bytes
}

func bytesOf(slice *resourceapi.ResourceSlice, patches int) int {
	bytes := 0
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		bytes += bytesPerEntry*(1+len(d.Attributes)+len(d.Capacity)) + bytesPerVerdict*patches
	}
	return bytes
}
