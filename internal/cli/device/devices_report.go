package device

import (
	"fmt"
	"io"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/printable"
	"github.com/dra-steward/dra-steward/internal/taints"
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
	// Node is where it is, empty if that is more than one.
	Node string `json:"node,omitempty"`
}

// holderReport is a claim that has a device, and who uses the claim.
type holderReport struct {
	Namespace string   `json:"namespace"`
	Claim     string   `json:"claim"`
	UsedBy    []string `json:"usedBy,omitempty"`
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
		for _, claim := range holders.Claims(usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}) {
			holder := holderReport{Namespace: claim.Namespace, Claim: claim.Name}
			for _, user := range claim.Status.ReservedFor {
				holder.UsedBy = append(holder.UsedBy, user.Resource+"/"+user.Name)
			}
			r.AllocatedTo = append(r.AllocatedTo, holder)
		}
		for _, name := range []*string{d.Slice().Spec.NodeName, d.Published().NodeName} {
			if name != nil {
				r.Node = *name
			}
		}
		all = append(all, r)
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
	held, tainted := 0, 0
	for _, r := range all {
		if len(r.AllocatedTo) > 0 {
			held++
		}
		if len(r.Taints) > 0 {
			tainted++
		}
	}
	what := "devices"
	if len(all) == 1 {
		what = "device"
	}
	return fmt.Sprintf("%d %s: %d allocated, %d free; %d tainted", len(all), what, held, len(all)-held, tainted)
}

// writeDevicesText writes a line for each device, and one for each of its taints and
// patched values if there are several; wide has where the device is and who uses it, too.
// With headers, a line of totals ends the table.
func writeDevicesText(out io.Writer, all []deviceReport, wide, headers bool) error {
	table := printable.NewTable(out, 3)
	header := "DRIVER\tPOOL\tDEVICE\tALLOCATED TO\tWHAT\tFROM"
	if wide {
		header = "DRIVER\tPOOL\tDEVICE\tNODE\tSLICE\tALLOCATED TO\tUSED BY\tWHAT\tFROM"
	}
	if headers {
		fmt.Fprintln(table, header)
	}
	for _, r := range all {
		holders, users := r.holders()
		start := fmt.Sprintf("%s\t%s\t%s\t%s", r.Driver, r.Pool, r.Device, holders)
		if wide {
			start = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", r.Driver, r.Pool, r.Device, or(r.Node, "-"), r.Slice, holders, users)
		}
		if len(r.Taints)+len(r.Patched) == 0 {
			fmt.Fprintf(table, "%s\t-\t-\n", start)
		}
		for _, taint := range r.Taints {
			fmt.Fprintf(table, "%s\ttaint %s\t%s\n", start, toleration.TaintText(taint.DeviceTaint), taint.Source)
		}
		for _, p := range r.Patched {
			fmt.Fprintf(table, "%s\t%s\t%s\n", start, p.what(), p.from())
		}
	}
	if err := table.Flush(); err != nil || !headers {
		return err
	}
	_, err := fmt.Fprintln(out, totals(all))
	return err
}

// holders names the claims and who uses them, "-" for none.
func (r deviceReport) holders() (claims, users string) {
	for _, h := range r.AllocatedTo {
		claims += "," + h.Namespace + "/" + h.Claim
		for _, user := range h.UsedBy {
			users += "," + user
		}
	}
	return or(strings.TrimPrefix(claims, ","), "-"), or(strings.TrimPrefix(users, ","), "-")
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
