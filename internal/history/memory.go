package history

import (
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// MaxPrevious bounds the holders of before that a memory has, of all devices together.
const MaxPrevious = 1 << 16

// A Memory has the holders of all devices: those of now, and of each device the last ones before.
// With many devices it has fewer of each. The zero value is ready for use.
type Memory struct {
	// Since is the time from which on it has all holders, but those that [Past] counts.
	Since    time.Time
	now      map[string]*holding // by UID of the claim
	on       map[v1alpha1.DeviceName][]*holding
	previous map[v1alpha1.DeviceName]Past
	// held is how many there are in previous, depth how many of each device; 0 is MaxHolders.
	held, depth int
}

// A Past is the holders of before of a device, Cut how many older ones were left out.
type Past struct {
	Holders []Holder
	Cut     int
}

// A holding is a claim with its devices.
type holding struct {
	Holder
	devices []v1alpha1.DeviceName
}

// Hold notes that a claim holds devices, as it is now.
func (m *Memory) Hold(h Holder, devices []v1alpha1.DeviceName, now time.Time) {
	h.clean(now)
	known := m.now[h.UID]
	if known != nil && slices.Equal(known.devices, devices) {
		known.follow(&h)
		return
	}
	m.Release(h.UID, now)
	if m.now == nil {
		m.now, m.on = map[string]*holding{}, map[v1alpha1.DeviceName][]*holding{}
	}
	holds := &holding{h, devices}
	m.now[h.UID] = holds
	for _, device := range devices {
		if !slices.Contains(m.on[device], holds) {
			m.on[device] = append(m.on[device], holds)
		}
	}
}

// Release notes that a claim no longer holds devices.
func (m *Memory) Release(uid string, now time.Time) {
	h := m.now[uid]
	if h == nil {
		return
	}
	delete(m.now, uid)
	h.Until = later(h.Since, moment(now, now))
	for _, device := range h.devices {
		if m.on[device] = slices.DeleteFunc(m.on[device], func(other *holding) bool { return other == h }); len(m.on[device]) == 0 {
			delete(m.on, device)
		}
		m.add(device, Past{Holders: []Holder{h.Holder}})
	}
	m.fit(now)
}

// Return gives back the holders of a record that is left out.
func (m *Memory) Return(r *Record, now time.Time) {
	past := Past{Cut: r.CutHolders}
	for _, h := range r.Holders {
		if !h.Until.IsZero() {
			past.Holders = append(past.Holders, h)
		}
	}
	if len(past.Holders) > 0 {
		m.add(r.DeviceName, past)
		m.fit(now)
	}
}

// add adds holders of before of a device.
func (m *Memory) add(device v1alpha1.DeviceName, more Past) {
	if m.previous == nil {
		m.previous = map[v1alpha1.DeviceName]Past{}
	}
	past := m.previous[device]
	past.Holders = append(past.Holders, more.Holders...)
	past.Cut += more.Cut
	slices.SortStableFunc(past.Holders, func(a, b Holder) int { return a.Until.Compare(b.Until) })
	m.held += len(more.Holders)
	m.previous[device] = past
	m.shorten(device, m.most())
}

// fit leaves out what there is no room for.
func (m *Memory) fit(now time.Time) {
	for m.held > MaxPrevious && m.most() > 1 {
		m.depth = m.most() / 2
		for device := range m.previous {
			m.shorten(device, m.depth)
		}
	}
	for device := range m.previous { // more devices than there is room for: any of them goes
		if m.held <= MaxPrevious {
			break
		}
		m.forget(device)
		m.Since = moment(now, now)
	}
}

func (m *Memory) most() int {
	if m.depth == 0 {
		return MaxHolders
	}
	return m.depth
}

// shorten keeps the newest holders of a device, and counts the others.
func (m *Memory) shorten(device v1alpha1.DeviceName, most int) {
	past := m.previous[device]
	over := len(past.Holders) - most
	if over <= 0 {
		return
	}
	m.held -= over
	m.previous[device] = Past{slices.Clone(past.Holders[over:]), past.Cut + over}
}

func (m *Memory) forget(device v1alpha1.DeviceName) {
	m.held -= len(m.previous[device].Holders)
	delete(m.previous, device)
}

// Holders returns the holders of now of a device.
func (m *Memory) Holders(device v1alpha1.DeviceName) (all []Holder) {
	for _, h := range m.on[device] {
		all = append(all, h.Holder)
	}
	return all
}

// Take returns the holders of before of a device, and forgets them.
func (m *Memory) Take(device v1alpha1.DeviceName) Past {
	past := m.previous[device]
	m.forget(device)
	return past
}

// Expire forgets what ended long ago.
func (m *Memory) Expire(now time.Time) {
	for device, past := range m.previous {
		old := 0
		for old < len(past.Holders) && now.Sub(past.Holders[old].Until) > Age {
			old++
		}
		if old == len(past.Holders) {
			m.forget(device)
		} else if old > 0 {
			m.held -= old
			m.previous[device] = Past{slices.Clone(past.Holders[old:]), past.Cut}
		}
	}
	if m.held < MaxPrevious/4 {
		m.depth = 0
	}
}
