package app

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// deviceReport is one device as devices -o json writes it.
type deviceReport struct {
	Driver  string          `json:"driver"`
	Pool    string          `json:"pool"`
	Device  string          `json:"device"`
	Slice   string          `json:"slice"`
	Taints  []tracker.Taint `json:"taints,omitempty"`
	Patched []patchedReport `json:"patched,omitempty"`
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

func writeDevicesJSON(out io.Writer, view *tracker.Snapshot) error {
	all := []deviceReport{}
	for d := range view.Devices() {
		all = append(all, reportDevice(d))
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

// writeDevicesText writes a line for each device, and one for each of its taints and
// patched values.
func writeDevicesText(out io.Writer, view *tracker.Snapshot) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "DRIVER\tPOOL\tDEVICE\tWHAT\tFROM")
	for d := range view.Devices() {
		r := reportDevice(d)
		if len(r.Taints)+len(r.Patched) == 0 {
			fmt.Fprintf(table, "%s\t%s\t%s\t-\t-\n", r.Driver, r.Pool, r.Device)
		}
		for _, taint := range r.Taints {
			key := taint.Key
			if taint.Value != "" {
				key += "=" + taint.Value
			}
			fmt.Fprintf(table, "%s\t%s\t%s\ttaint %s:%s\t%s\n", r.Driver, r.Pool, r.Device, key, taint.Effect, taint.Source)
		}
		for _, p := range r.Patched {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Driver, r.Pool, r.Device, p.what(), p.from())
		}
	}
	return table.Flush()
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
