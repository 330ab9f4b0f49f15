package record

import (
	"maps"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Recover returns the text of the record that a stored slice should have, or nothing if it has that.
// A webhook that did not know the newest values that we had written has taken them for those of the
// driver. What is known explains them.
func Recover(slice *resourceapi.ResourceSlice, known Originals, now time.Time) (string, error) {
	if len(known) == 0 {
		return "", nil
	}
	published, err := Published(slice, now)
	if err != nil {
		published = slice
	}
	forgotten := known.Forgotten(published, now)
	if len(forgotten) == 0 {
		return "", nil
	}
	own, err := OriginalsOf(slice)
	if err != nil {
		own = nil
	}
	recovered := maps.Clone(own)
	if recovered == nil {
		recovered = Originals{}
	}
	for device := range forgotten {
		recovered[device] = known[device].under(own[device])
	}
	return recovered.Encode()
}

// Forgotten returns the names of the devices of a slice, as [Published] returns it, that were
// published with a value that we wrote, or did, and are otherwise as their driver said. There are none
// if their driver says something else of any device that is known: that is a new publication, in
// which all values are its own.
func (l Originals) Forgotten(published *resourceapi.ResourceSlice, now time.Time) map[string]bool {
	var forgotten map[string]bool
	for i := range published.Spec.Devices {
		device := &published.Spec.Devices[i]
		switch said := l[device.Name]; {
		case l.Explains(device, now):
			if forgotten == nil {
				forgotten = map[string]bool{}
			}
			forgotten[device.Name] = true
		case said.View != 0 && said.View != viewOf(device):
			return nil
		}
	}
	return forgotten
}

// under returns what is known of a device into which others, of which less was known, have been
// written since.
func (d Device) under(since Device) Device {
	entries := maps.Clone(d.Entries)
	for k, e := range since.Entries {
		before, has := entries[k]
		switch {
		case !has:
			entries[k] = e
		case e.InForce():
			entries[k] = before.next(before.Published, e.Written, e.Patch)
		}
	}
	return Device{View: d.View, Entries: entries}
}
