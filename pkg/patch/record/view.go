package record

import (
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A View is a hash of what a driver says of a device: of its attributes with one value and of
// its capacities. The rest is left out, because API servers drop or fill it in.
type View uint64

// viewOf does not depend on the order of the attributes and capacities.
func viewOf(d *resourceapi.Device) View {
	sum := View(1) // a device without any is known, too
	add := func(kind, name, value string) {
		sum += View(xxhash.Sum64String(kind + "\x00" + name + "\x00" + value))
	}
	for name, a := range d.Attributes {
		switch {
		case a.StringValue != nil:
			add("string", string(name), *a.StringValue)
		case a.VersionValue != nil:
			add("version", string(name), *a.VersionValue)
		case a.IntValue != nil:
			add("int", string(name), strconv.FormatInt(*a.IntValue, 10))
		case a.BoolValue != nil:
			add("bool", string(name), strconv.FormatBool(*a.BoolValue))
		}
	}
	for name, c := range d.Capacity {
		add("capacity", string(name), amount(c.Value))
	}
	return sum
}

// viewOfAll does not depend on the order of the devices.
func viewOfAll(slice *resourceapi.ResourceSlice) (sum View) {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		sum += View(xxhash.Sum64String(d.Name + "\x00" + strconv.FormatUint(uint64(viewOf(d)), viewBase)))
	}
	return sum
}

// amount is equal for quantities that mean the same.
func amount(q resource.Quantity) string {
	if n, whole := q.AsInt64(); whole {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(q.AsApproximateFloat64(), 'g', -1, 64)
}

// viewBase keeps a view short, as a text: a number of so many digits is no quantity.
const viewBase = 36

// MarshalText implements [encoding.TextMarshaler].
func (v View) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(v), viewBase), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *View) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), viewBase, 64)
	if err != nil {
		return fmt.Errorf("view %.20q of a device: must be a number of base %d", text, viewBase)
	}
	*v = View(n)
	return nil
}
