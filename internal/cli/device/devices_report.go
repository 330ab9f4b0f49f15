package device

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// deviceReport is one device as devices -o json writes it.
type deviceReport struct {
	Driver  string          `json:"driver"`
	Pool    string          `json:"pool"`
	Device  string          `json:"device"`
	Slice   string          `json:"slice"`
	Taints  []tracker.Taint `json:"taints,omitempty"`
	Patched []patchedReport `json:"patched,omitempty"`
	// AllocatedTo are the claims that have the device.
	AllocatedTo []holderReport `json:"allocatedTo,omitempty"`
	// ObservedBy are the claims that have only admin access to it. They hold nothing.
	ObservedBy []holderReport `json:"observedBy,omitempty"`
	// Consumed is what all shares of it consume of its capacity, which claims share.
	Consumed map[string]consumedReport `json:"consumed,omitempty"`
	// Full is true if no other claim can get it, or a share of it.
	Full bool `json:"full"`
	// Node is where it is, empty if that is more than one.
	Node string `json:"node,omitempty"`
}

// holderReport is a claim that has a device, and who uses the claim.
type holderReport struct {
	Namespace string   `json:"namespace"`
	Claim     string   `json:"claim"`
	UsedBy    []string `json:"usedBy,omitempty"`
}

// consumedReport is what shares consume of one capacity.
type consumedReport struct {
	Consumed resource.Quantity `json:"consumed"`
	Total    resource.Quantity `json:"total"`
}

// patchedReport is what patches did to one attribute or capacity.
type patchedReport struct {
	// Name has the list: attributes[example.com/color].
	Name   string `json:"name"`
	Effect string `json:"effect"`
	// Published is the value of the driver, Value that of now; nil for none.
	Published any `json:"published,omitempty"`
	Value     any `json:"value,omitempty"`
	// Patch decided, Suppressed wanted something, too.
	Patch      string   `json:"patch"`
	Suppressed []string `json:"suppressed,omitempty"`
}

func reportDevice(d tracker.Device) deviceReport {
	r := deviceReport{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name(), Slice: d.Slice().Name, Taints: d.Taints()}
	for key := range d.Patched() {
		p := patchedReport{
			Name: key.Name.String(), Effect: key.Effect.String(), Patch: key.Winner.Object.Name,
			Published: valueOf(d.Published(), d.Driver(), key), Value: valueOf(d.Merged(), d.Driver(), key),
		}
		for _, s := range key.Suppressed {
			p.Suppressed = append(p.Suppressed, s.Object.Name)
		}
		r.Patched = append(r.Patched, p)
	}
	return r
}

// valueOf returns the value of an attribute or capacity of a device, nil for none. A
// name of the driver may be written without the driver.
func valueOf(device *resourceapi.Device, driver string, key patch.Key) any {
	full := resourceapi.QualifiedName(key.Name.Qualified)
	for _, name := range []resourceapi.QualifiedName{full, resourceapi.QualifiedName(strings.TrimPrefix(string(full), driver+"/"))} {
		if key.Name.Capacity {
			if capacity, ok := device.Capacity[name]; ok {
				return capacity.Value.String()
			}
		} else if attribute, ok := device.Attributes[name]; ok {
			return attributeValue(attribute)
		}
	}
	return nil
}

// attributeValue returns the one value that an attribute has.
func attributeValue(attribute resourceapi.DeviceAttribute) any {
	switch {
	case attribute.IntValue != nil:
		return *attribute.IntValue
	case attribute.BoolValue != nil:
		return *attribute.BoolValue
	case attribute.StringValue != nil:
		return *attribute.StringValue
	case attribute.VersionValue != nil:
		return *attribute.VersionValue
	default: // a list
		return attribute.String()
	}
}

// reportDevices reports all devices, with the claims that have them.
func reportDevices(l *clusterread.Snapshot) []deviceReport {
	all, holders := []deviceReport{}, l.Holders()
	for d := range l.View.Devices() {
		r := reportDevice(d)
		id, use := usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, use{}
		for _, claim := range holders.Claims(id) {
			holder := holderReport{Namespace: claim.Namespace, Claim: claim.Name}
			for _, user := range claim.Status.ReservedFor {
				holder.UsedBy = append(holder.UsedBy, user.Resource+"/"+user.Name)
			}
			if use.add(claim, id) {
				r.AllocatedTo = append(r.AllocatedTo, holder)
			} else {
				r.ObservedBy = append(r.ObservedBy, holder)
			}
		}
		r.Full, r.Consumed = use.Full(d.Merged()), use.consumed(d.Merged())
		for _, name := range []*string{d.Slice().Spec.NodeName, d.Published().NodeName} {
			if name != nil {
				r.Node = *name
			}
		}
		all = append(all, r)
	}
	return all
}

// use is what claims have of a device.
type use struct{ usage.Taken }

// add adds what a claim has of a device, and reports whether that is more than admin access.
func (u *use) add(claim *resourceapi.ResourceClaim, id usage.DeviceID) (holds bool) {
	if claim.Status.Allocation == nil {
		return false
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if (usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}) == id {
			u.Add(r)
			holds = holds || !usage.Observes(r)
		}
	}
	return holds
}

// consumed is what the shares consume of a device; nil without shares.
func (u *use) consumed(d *resourceapi.Device) (all map[string]consumedReport) {
	if u.Shares == 0 {
		return nil
	}
	all = map[string]consumedReport{}
	for name, capacity := range d.Capacity {
		all[string(name)] = consumedReport{u.Consumed[name], capacity.Value}
	}
	return all
}

// inOne reports whether the device is in one of the targets.
func (r deviceReport) inOne(all []taints.Target) bool {
	id := usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
	return slices.ContainsFunc(all, func(t taints.Target) bool { return t.Has(id) })
}

// totals is the last line of the table.
func totals(all []deviceReport) string {
	held, partly, tainted := 0, 0, 0
	for _, r := range all {
		switch {
		case r.Full:
			held++
		case len(r.AllocatedTo) > 0:
			partly++
		}
		if len(r.Taints) > 0 {
			tainted++
		}
	}
	what := "devices"
	if len(all) == 1 {
		what = "device"
	}
	allocated := fmt.Sprintf("%d allocated", held)
	if partly > 0 {
		allocated += fmt.Sprintf(", %d in part", partly)
	}
	return fmt.Sprintf("%d %s: %s, %d free; %d tainted", len(all), what, allocated, len(all)-held-partly, tainted)
}

// writeDevicesText writes a line for each device, and one for each of its taints and
// patched values if there are several; wide has where the device is and who uses it, too.
// With headers, a line of totals ends the table.
func writeDevicesText(out io.Writer, all []deviceReport, wide, headers bool) error {
	table := printable.NewTable(out, 3)
	header := printable.Cells{"DRIVER", "POOL", "DEVICE", "ALLOCATED TO", "WHAT", "FROM"}
	if wide {
		header = printable.Cells{"DRIVER", "POOL", "DEVICE", "NODE", "SLICE", "ALLOCATED TO", "USED BY", "WHAT", "FROM"}
	}
	if headers {
		printable.Printf(table, "%s\n", header)
	}
	for _, r := range all {
		holders, users := r.holders()
		start := printable.Cells{r.Driver, r.Pool, r.Device, holders}
		if wide {
			start = printable.Cells{r.Driver, r.Pool, r.Device, or(r.Node, "-"), r.Slice, holders, users}
		}
		if len(r.Taints)+len(r.Patched) == 0 {
			printable.Printf(table, "%s\t-\t-\n", start)
		}
		for _, taint := range r.Taints {
			printable.Printf(table, "%s\ttaint %s\t%s\n", start, toleration.TaintText(taint.DeviceTaint), taint.Source)
		}
		for _, p := range r.Patched {
			printable.Printf(table, "%s\t%s\t%s\n", start, p.what(), p.from())
		}
	}
	if err := table.Flush(); err != nil || !headers {
		return err
	}
	_, err := printable.Printf(out, "%s\n", totals(all))
	return err
}

// holders names the claims, what their shares consume of the total, and who uses them; "-" for none.
func (r deviceReport) holders() (claims, users string) {
	var names, used []string
	for _, h := range slices.Concat(r.AllocatedTo, r.ObservedBy) {
		name := h.Namespace + "/" + h.Claim
		if len(names) >= len(r.AllocatedTo) {
			name += " (admin access)"
		}
		names, used = append(names, name), append(used, h.UsedBy...)
	}
	claims = strings.Join(names, ",")
	for _, name := range slices.Sorted(maps.Keys(r.Consumed)) {
		c := r.Consumed[name]
		claims += fmt.Sprintf(" %s %s/%s", name, c.Consumed.String(), c.Total.String())
	}
	return or(claims, "-"), or(strings.Join(used, ","), "-")
}

func or(text, empty string) string {
	if text == "" {
		return empty
	}
	return text
}

func (p patchedReport) what() string {
	switch {
	case p.Value == nil:
		return fmt.Sprintf("%s: none, published %v", p.Name, p.Published)
	case p.Published == nil:
		return fmt.Sprintf("%s: %v, not published", p.Name, p.Value)
	default:
		return fmt.Sprintf("%s: %v, published %v", p.Name, p.Value, p.Published)
	}
}

func (p patchedReport) from() string {
	from := "patch/" + p.Patch
	if len(p.Suppressed) > 0 {
		from += " over " + strings.Join(p.Suppressed, ", ")
	}
	return from
}
