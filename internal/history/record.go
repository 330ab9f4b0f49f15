package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// The bounds of a record.
const (
	// MaxHolders, MaxEntries and MaxSteps are how many holders and entries a record has, and steps
	// an entry; MaxPods is how many pods of a holder are named.
	MaxHolders, MaxEntries, MaxSteps, MaxPods = 8, 16, 8, 4
	// Age is how long what has ended is kept.
	Age = 30 * 24 * time.Hour
	// maxRecord is the size of a record in bytes, about as JSON.
	maxRecord = 16 << 10
	// maxText bounds texts that people and drivers write, in bytes. Names are longer.
	maxText, maxName = 256, 320
	// same is how soon something must return to count as the same.
	same = 10 * time.Minute
)

// A Record is what is known of one device.
type Record struct {
	v1alpha1.DeviceName `json:",inline"`
	// Node is where it is, empty if that is more than one.
	Node string `json:"node,omitempty"`
	// Entries are what was done to it, by the time of their begin.
	Entries []Entry `json:"entries,omitempty"`
	// Holders are the claims that had it last.
	Holders []Holder `json:"holders,omitempty"`
	// HoldersSince is the time from which on all holders were remembered as the record began.
	HoldersSince time.Time `json:"holdersSince,omitzero"`
	// CutEntries and CutHolders are how many older ones were left out.
	CutEntries int `json:"cutEntries,omitempty"`
	CutHolders int `json:"cutHolders,omitempty"`
}

// A Kind is what an entry is about.
type Kind string

// The kinds of entries.
const (
	Taint    Kind = "taint"
	Drain    Kind = "drain"
	Reaction Kind = "reaction"
)

// An Entry is a taint, a drain or a reaction, from its begin to its end.
type Entry struct {
	Kind Kind `json:"kind"`
	// Name is that of the drain or reaction, or the taint.
	Name string `json:"name"`
	// UID is that of the drain.
	UID string `json:"uid,omitempty"`
	// Effect is that of the taint, Source who published it, as driver/NAME or rule/NAME.
	Effect string `json:"effect,omitempty"`
	Source string `json:"source,omitempty"`
	// By is the owner at the begin, Reason and Ticket are why.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Ticket string `json:"ticket,omitempty"`
	// Begin is when it began, End when it ended; the zero time is not yet.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"`
	// Unpublished is true if it ended because the device is no longer published.
	Unpublished bool `json:"unpublished,omitempty"`
	// Times is how often it began, each time within ten minutes of its end; 0 is once.
	Times int `json:"times,omitempty"`
	// Steps are the states of a drain or reaction, and changes; CutSteps is how many were left out.
	Steps    []Step `json:"steps,omitempty"`
	CutSteps int    `json:"cutSteps,omitempty"`
}

// A Step is a state that a drain or a reaction has reached, or a change of by whom and why an entry is.
type Step struct {
	// Time is the zero time in what is observed for the time of the observation.
	Time    time.Time `json:"time"`
	State   string    `json:"state"`
	Message string    `json:"message,omitempty"`
	// By is the owner since a change, Cause the cause of a reaction then.
	By    string `json:"by,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// stateChanged is the state of a step that says by whom and why an entry is from then on.
const stateChanged = "changed"

// A Holder is a claim that has or had the device.
type Holder struct {
	Namespace string `json:"namespace"`
	Claim     string `json:"claim"`
	UID       string `json:"uid,omitempty"`
	// Pods are the first pods for which the claim was reserved, MorePods is how many others there
	// were, at least.
	Pods     []string `json:"pods,omitempty"`
	MorePods int      `json:"morePods,omitempty"`
	// Owner is what controls the first pod, as Kind/name, and Node is where that pod is.
	Owner string `json:"owner,omitempty"`
	Node  string `json:"node,omitempty"`
	// Since is when the claim was allocated, the zero time if that is not known; Until when it no
	// longer was, the zero time if it still is.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// is reports whether two entries are about the same.
func (e *Entry) is(other *Entry) bool {
	return e.Kind == other.Kind && e.Name == other.Name && e.UID == other.UID && e.Source == other.Source
}

// Equal reports whether two entries say the same.
func (e Entry) Equal(other Entry) bool {
	return e.is(&other) && e.Effect == other.Effect && e.By == other.By && e.Reason == other.Reason && e.Ticket == other.Ticket &&
		e.Begin.Equal(other.Begin) && e.End.Equal(other.End) && e.Unpublished == other.Unpublished && e.Times == other.Times && e.CutSteps == other.CutSteps &&
		slices.EqualFunc(e.Steps, other.Steps, Step.equal)
}

func (s Step) equal(other Step) bool {
	return s.Time.Equal(other.Time) && s.State == other.State && s.Message == other.Message && s.By == other.By && s.Cause == other.Cause
}

func (e *Entry) open() bool { return e.End.IsZero() }

// last is when an entry changed last.
func (e *Entry) last() time.Time {
	at := later(e.Begin, e.End)
	if n := len(e.Steps); n > 0 {
		at = later(at, e.Steps[n-1].Time)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// beganAs reports whether two entries began by the same owner, for the same reason.
func (e *Entry) beganAs(other *Entry) bool {
	return e.By == other.By && e.Reason == other.Reason && e.Ticket == other.Ticket
}

// why is the reason with the ticket.
func (e *Entry) why() string {
	if e.Ticket == "" {
		return e.Reason
	}
	return strings.TrimPrefix(e.Reason+", "+e.Ticket, ", ")
}

// lastChange is the index of the last step that is a change, -1 if there is none.
func (e *Entry) lastChange() int {
	for i, step := range slices.Backward(e.Steps) {
		if step.State == stateChanged {
			return i
		}
	}
	return -1
}

// stands is the change that says by whom and why an entry is now.
func (e *Entry) stands() Step {
	if at := e.lastChange(); at >= 0 {
		return e.Steps[at]
	}
	is := Step{State: stateChanged, By: cmp.Or(e.By, e.Source), Message: clean(e.why(), maxText)}
	if e.Kind == Reaction { // its causes come and go
		is.Message = e.Ticket
	}
	return is
}

// follow takes over what is newer of an entry that goes on. It reports whether it changes. Who began it, and why,
// stays: others can write what is there now.
func (e *Entry) follow(other *Entry, now time.Time) bool {
	steps := other.Steps
	if was, is := e.stands(), other.stands(); was.By != is.By || was.Message != is.Message {
		steps = append(slices.Clip(steps), is)
	}
	return e.add(steps, now)
}

// resume makes an entry that has ended one that goes on.
func (e *Entry) resume(other *Entry, now time.Time) bool {
	e.End, e.Unpublished = time.Time{}, false
	e.follow(other, now)
	return true
}

// add adds the steps that are new. It reports whether there are any.
func (e *Entry) add(steps []Step, now time.Time) (is bool) {
	for _, step := range steps {
		if e.knows(step) {
			continue
		}
		if step.Time.IsZero() {
			step.Time = moment(now, now)
		}
		e.Steps, is = append(e.Steps, step), true
	}
	slices.SortStableFunc(e.Steps, func(a, b Step) int { return a.Time.Compare(b.Time) })
	for len(e.Steps) > MaxSteps {
		at := e.oldest()
		e.Steps = slices.Delete(e.Steps, at, at+1)
		e.CutSteps++
	}
	return is
}

// oldest is the index of the step that goes first. The first step and the last change stay.
func (e *Entry) oldest() int {
	if e.lastChange() == 1 {
		return 2
	}
	return 1
}

// knows reports whether a step is among those of an entry, or there is no room for it.
func (e *Entry) knows(step Step) bool {
	switch {
	case step.State == stateChanged:
		return false
	case step.Time.IsZero():
		return e.reached(step)
	case len(e.Steps) == MaxSteps && !step.Time.After(e.Steps[e.oldest()].Time):
		return true
	}
	return slices.ContainsFunc(e.Steps, func(known Step) bool { return known.State == step.State && !known.Time.Before(step.Time) })
}

// reached reports whether a step without a time is the present one. A reaction has one state at a time, with
// messages that come and go. The others of a drain have times.
func (e *Entry) reached(step Step) bool {
	for _, known := range slices.Backward(e.Steps) {
		switch {
		case e.Kind == Reaction && known.State != stateChanged:
			return known.State == step.State
		case e.Kind != Reaction && known.State == step.State:
			return known.Message == step.Message
		}
	}
	return false
}

// AddPods adds pods to those of a holder. It reports whether it changes.
func (h *Holder) AddPods(pods ...string) (changed bool) {
	for _, pod := range pods {
		if slices.Contains(h.Pods, pod) {
			continue
		}
		if len(h.Pods) == MaxPods { // which of them are counted already is not known
			continue
		}
		h.Pods, changed = append(slices.Clip(h.Pods), pod), true
	}
	if more := max(h.MorePods, len(pods)-len(h.Pods)); more != h.MorePods {
		h.MorePods, changed = more, true
	}
	return changed
}

// follow takes over what is newer of a holder that goes on. It reports whether it changes.
func (h *Holder) follow(now *Holder) (changed bool) {
	changed = h.AddPods(now.Pods...)
	if now.MorePods > h.MorePods {
		h.MorePods, changed = now.MorePods, true
	}
	for _, text := range []struct{ had, has *string }{{&h.Owner, &now.Owner}, {&h.Node, &now.Node}} {
		if *text.had == "" && *text.has != "" {
			*text.had, changed = *text.has, true
		}
	}
	if h.Since.IsZero() && !now.Since.IsZero() {
		h.Since, changed = now.Since, true
	}
	if h.Until.IsZero() && !now.Until.IsZero() {
		h.Until, changed = now.Until, true
	}
	return changed
}

// sameUse reports whether two uses that have ended are the same one. Replicas see its end at different times, and its
// begin, if the claim does not say when it was allocated.
func (h *Holder) sameUse(other *Holder) bool {
	return !other.Until.IsZero() && (h.Since.Equal(other.Since) || h.Since.Before(other.Until) && other.Since.Before(h.Until))
}

// compareUse orders holders by when they began. Of those of one second, which is as exact as the times
// of claims are, the one that has ended was the first.
func compareUse(a, b Holder) int {
	if began := a.Since.Compare(b.Since); began != 0 {
		return began
	}
	switch {
	case a.Until.IsZero() && !b.Until.IsZero():
		return 1
	case !a.Until.IsZero() && b.Until.IsZero():
		return -1
	}
	return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.UID, b.UID))
}

// bound cuts what is more than a record has room for.
func (r *Record) bound() {
	slices.SortStableFunc(r.Entries, func(a, b Entry) int { return a.Begin.Compare(b.Begin) })
	slices.SortStableFunc(r.Holders, compareUse)
	for len(r.Entries) > MaxEntries {
		r.cutEntry()
	}
	for len(r.Holders) > MaxHolders {
		r.cutHolder()
	}
	for r.size() > maxRecord {
		if len(r.Holders) > 1 {
			r.cutHolder()
		} else if len(r.Entries) > 1 {
			r.cutEntry()
		} else {
			break
		}
	}
}

// cutEntry leaves out the oldest entry that has ended, or else the oldest one.
func (r *Record) cutEntry() {
	at := max(0, slices.IndexFunc(r.Entries, func(e Entry) bool { return !e.open() }))
	r.Entries = slices.Delete(r.Entries, at, at+1)
	r.CutEntries++
}

// cutHolder leaves out the oldest holder that has ended, or else the oldest one.
func (r *Record) cutHolder() {
	at := max(0, slices.IndexFunc(r.Holders, func(h Holder) bool { return !h.Until.IsZero() }))
	r.Holders = slices.Delete(r.Holders, at, at+1)
	r.CutHolders++
}

// expire leaves out what ended long ago. It reports whether entries are left, and whether the
// record changes.
func (r *Record) expire(now time.Time) (lives, changed bool) {
	old := func(end time.Time) bool { return !end.IsZero() && now.Sub(end) > Age }
	entries, holders := len(r.Entries), len(r.Holders)
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return old(e.End) })
	r.Holders = slices.DeleteFunc(r.Holders, func(h Holder) bool { return old(h.Until) })
	return len(r.Entries) > 0, entries != len(r.Entries) || holders != len(r.Holders)
}

// last is when the record changed last.
func (r *Record) last() (at time.Time) {
	for i := range r.Entries {
		at = later(at, r.Entries[i].last())
	}
	for i := range r.Holders {
		at = later(at, later(r.Holders[i].Since, r.Holders[i].Until))
	}
	return at
}

// size is about the length of the record as JSON.
func (r *Record) size() int {
	n := 160 + len(r.Driver) + len(r.Pool) + len(r.Device) + len(r.Node)
	for i := range r.Entries {
		e := &r.Entries[i]
		n += 160 + len(e.Name) + len(e.UID) + len(e.Effect) + len(e.Source) + len(e.By) + len(e.Reason) + len(e.Ticket)
		for _, s := range e.Steps {
			n += 64 + len(s.State) + len(s.Message) + len(s.By) + len(s.Cause)
		}
	}
	for i := range r.Holders {
		h := &r.Holders[i]
		n += 160 + len(h.Namespace) + len(h.Claim) + len(h.UID) + len(h.Owner) + len(h.Node)
		for _, pod := range h.Pods {
			n += 4 + len(pod)
		}
	}
	return n
}

// clean bounds what others have written of a record.
func (r *Record) clean(now time.Time) {
	for _, name := range []*string{&r.Driver, &r.Pool, &r.Device, &r.Node} {
		*name = clean(*name, maxName)
	}
	r.HoldersSince = moment(r.HoldersSince, now)
	r.CutEntries, r.CutHolders = max(0, r.CutEntries), max(0, r.CutHolders)
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return e.Kind != Taint && e.Kind != Drain && e.Kind != Reaction || e.Name == "" })
	for i := range r.Entries {
		r.Entries[i].clean(now)
	}
	r.Holders = slices.DeleteFunc(r.Holders, func(h Holder) bool { return h.Namespace == "" || h.Claim == "" })
	for i := range r.Holders {
		r.Holders[i].clean(now)
	}
	r.bound()
}

func (e *Entry) clean(now time.Time) {
	e.Name = clean(e.Name, 2*maxName) // a taint has a key and a value
	for _, name := range []*string{&e.UID, &e.Effect, &e.Source} {
		*name = clean(*name, maxName)
	}
	for _, text := range []*string{&e.By, &e.Reason, &e.Ticket} {
		*text = clean(*text, maxText)
	}
	if e.Begin = moment(e.Begin, now); e.Begin.IsZero() {
		e.Begin = now
	}
	if e.End = moment(e.End, now); !e.End.IsZero() {
		e.End = later(e.Begin, e.End)
	}
	e.Times, e.CutSteps = max(0, e.Times), max(0, e.CutSteps)
	if over := len(e.Steps) - MaxSteps; over > 0 {
		e.Steps, e.CutSteps = e.Steps[over:], e.CutSteps+over
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		s.Time, s.State = moment(s.Time, now), clean(s.State, maxText)
		s.Message, s.By, s.Cause = clean(s.Message, maxText), clean(s.By, maxName), clean(s.Cause, maxText)
	}
}

func (h *Holder) clean(now time.Time) {
	for _, name := range []*string{&h.Namespace, &h.Claim, &h.UID, &h.Owner, &h.Node} {
		*name = clean(*name, maxName)
	}
	if over := len(h.Pods) - MaxPods; over > 0 {
		h.Pods, h.MorePods = h.Pods[:MaxPods], h.MorePods+over
	}
	h.MorePods = max(0, h.MorePods)
	for i := range h.Pods {
		h.Pods[i] = clean(h.Pods[i], maxName)
	}
	h.Since = moment(h.Since, now)
	if h.Until = moment(h.Until, now); !h.Until.IsZero() {
		h.Until = later(h.Since, h.Until)
	}
}

// moment is a time in whole seconds that is not in the future, if it is known what that is.
func moment(t, now time.Time) time.Time {
	if t.IsZero() || t.Year() < 1 {
		return time.Time{}
	}
	if t.After(now) && !now.IsZero() {
		t = now
	}
	return t.UTC().Truncate(time.Second)
}

// clean makes a text one line of at most most bytes.
func clean(text string, most int) string {
	if len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		const mark = "..."
		text = strings.ToValidUTF8(text[:most-len(mark)], "") + mark
	}
	return text
}
