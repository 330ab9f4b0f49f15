package history_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/memory/packed"
)

var begin = time.Date(2026, 11, 24, 6, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }

var gpu = v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-3"}

func taint(text string, since time.Time) history.Entry {
	_, effect, _ := strings.Cut(text, ":")
	return history.Entry{Kind: history.Taint, Name: text, Effect: effect, Source: "driver/gpu.example.com", Begin: since}
}

func holder(uid string, since time.Time, pods ...string) history.Holder {
	return history.Holder{Namespace: "team-a", Claim: "claim-" + uid, UID: uid, Pods: pods, Since: since}
}

// lines are the timeline of a device, with minutes.
func lines(l *history.Store, device v1alpha1.DeviceName, since time.Time) (all []string) {
	r := l.Of(device)
	if r == nil {
		return nil
	}
	for _, e := range r.Timeline(since) {
		minute := "?"
		if !e.Time.IsZero() {
			minute = fmt.Sprint(int(e.Time.Sub(begin).Minutes()))
		}
		text := minute + " " + e.What
		for _, more := range []string{e.By, e.Why} {
			if more != "" {
				text += "; " + more
			}
		}
		all = append(all, text)
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestStory: a pod runs on a device and ends, the driver taints the device, which is drained, and
// used again.
func TestStory(t *testing.T) {
	var memory history.Memory
	var store history.Store
	memory.Hold(holder("1", at(1), "train-0"), []v1alpha1.DeviceName{gpu}, at(1))
	memory.Release("1", at(3))
	memory.Hold(holder("2", at(4), "train-1"), []v1alpha1.DeviceName{gpu}, at(4))
	store.Observe(history.Observation{Device: gpu, Holders: memory.Holders(gpu)}, at(4))
	if store.Has(gpu) {
		t.Fatal("a device without an entry has a record")
	}
	xid := taint("example.com/xid=79:NoSchedule", at(5))
	store.Observe(history.Observation{Device: gpu, Node: "node-1", Entries: []history.Entry{xid}, Holders: memory.Holders(gpu), Previous: memory.Take(gpu), HoldersSince: at(0)}, at(6))
	drain := history.Entry{Kind: history.Drain, Name: "gpu-3-1a2b", UID: "d", By: "jane", Reason: "xid 79", Ticket: "OPS-1", Begin: at(7)}
	store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{xid, drain}, Holders: memory.Holders(gpu)}, at(7))
	memory.Release("2", at(8))
	drain.Steps = []history.Step{{Time: at(8), State: "Drained"}}
	store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{xid, drain}, Previous: memory.Take(gpu)}, at(9))
	store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{drain}}, at(20))
	store.Observe(history.Observation{Device: gpu}, at(30))
	story := []string{
		"1 held by team-a/claim-1 (pod train-0)",
		"3 released by team-a/claim-1 (pod train-0)",
		"4 held by team-a/claim-2 (pod train-1)",
		"5 taint example.com/xid=79:NoSchedule added; driver/gpu.example.com",
		"7 drain gpu-3-1a2b created; jane; xid 79, OPS-1",
		"8 drain gpu-3-1a2b: Drained",
		"8 released by team-a/claim-2 (pod train-1)",
		"20 taint example.com/xid=79:NoSchedule removed",
		"30 drain gpu-3-1a2b deleted",
	}
	expect(t, lines(&store, gpu, time.Time{}), story...)
	expect(t, lines(&store, gpu, at(8)), story[5:]...)
	if got := store.Taken(at(10), at(40), nil); got != 10*time.Minute {
		t.Errorf("taints took %s", got)
	}
	if pods := store.HeldBy("team-a", "", "train-0"); len(pods) != 1 || pods[0] != gpu {
		t.Errorf("train-0 had %v", pods)
	}
	expect(t, store.Of(gpu).Notes(), "holders before 2026-11-24T06:00:00Z can be missing: the controller remembers them since then")
	store.Expire(at(30).Add(history.Age + time.Minute))
	if store.Has(gpu) {
		t.Error("what ended long ago is kept")
	}
}

// TestUsesInOneSecond: a claim takes the device in the second in which another one released it. Its UID does
// not put it first.
func TestUsesInOneSecond(t *testing.T) {
	var memory history.Memory
	var store history.Store
	memory.Hold(holder("b", at(1)), []v1alpha1.DeviceName{gpu}, at(1))
	memory.Release("b", at(1))
	memory.Hold(holder("a", at(1)), []v1alpha1.DeviceName{gpu}, at(1))
	store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{taint("example.com/xid=79:NoSchedule", at(2))}, Holders: memory.Holders(gpu), Previous: memory.Take(gpu)}, at(2))
	expect(t, lines(&store, gpu, time.Time{}),
		"1 held by team-a/claim-b", "1 released by team-a/claim-b", "1 held by team-a/claim-a", "2 taint example.com/xid=79:NoSchedule added; driver/gpu.example.com")
}

// TestRestart: what ended or began while no controller ran is found, and nothing is recorded twice.
func TestRestart(t *testing.T) {
	var before, after history.Store
	xid := taint("a:NoSchedule", at(1))
	before.Observe(history.Observation{Device: gpu, Entries: []history.Entry{xid}, Holders: []history.Holder{holder("1", at(0), "a")}}, at(2))
	data, err := before.Encode(history.ShardOf(gpu))
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Decode(history.ShardOf(gpu), data, at(3)); err != nil {
		t.Fatal(err)
	}
	if open := after.Open(); len(open) != 1 || len(after.Changed()) != 0 {
		t.Fatalf("open %v, changed %v", open, after.Changed())
	}
	again := history.Observation{Device: gpu, Entries: []history.Entry{xid}, Holders: []history.Holder{holder("1", at(0), "a")}}
	after.Observe(again, at(4))
	if len(after.Changed()) != 0 {
		t.Error("the same state is a change")
	}
	after.Observe(history.Observation{Device: gpu, Entries: []history.Entry{taint("b:NoExecute", at(4))}, Holders: []history.Holder{holder("2", time.Time{}, "b")}}, at(5))
	expect(t, lines(&after, gpu, time.Time{}),
		"? held by team-a/claim-2 (pod b)", "0 held by team-a/claim-1 (pod a)", "1 taint a:NoSchedule added; driver/gpu.example.com", "4 taint b:NoExecute added; driver/gpu.example.com",
		"5 taint a:NoSchedule removed", "5 released by team-a/claim-1 (pod a)")
	// The other leader goes on with what it knew.
	if err := before.Decode(history.ShardOf(gpu), data, at(6)); err != nil || len(before.Of(gpu).Entries) != 1 {
		t.Errorf("%v, %v", before.Of(gpu), err)
	}
	before.Merge(&after, at(6))
	if n := len(before.Of(gpu).Entries); n != 2 {
		t.Errorf("%d entries", n)
	}
}

// TestFlapping: a taint that comes and goes is one entry.
func TestFlapping(t *testing.T) {
	var store history.Store
	for i := range 100 {
		when := begin.Add(time.Duration(i) * 6 * time.Second)
		o := history.Observation{Device: gpu}
		if i%2 == 0 {
			o.Entries = []history.Entry{taint("a:NoSchedule", when)}
		}
		store.Observe(o, when)
	}
	expect(t, lines(&store, gpu, time.Time{}), "0 taint a:NoSchedule added (50 times); driver/gpu.example.com", "9 taint a:NoSchedule removed")
}

// TestAuthors: who began an entry, and why, stays when others change its object or repeat it.
func TestAuthors(t *testing.T) {
	var store history.Store
	of := func(minute int, by, reason string) {
		e := taint("a:NoSchedule", at(minute))
		e.Source, e.By, e.Reason = "rule/a", by, reason
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{e}}, at(minute))
	}
	of(1, "alice", "fan")
	store.Observe(history.Observation{Device: gpu}, at(3))
	of(6, "bob", "firmware")
	of(20, "carol", "my test")
	of(21, "carol", "my test")
	of(22, "", "")
	store.Observe(history.Observation{Device: gpu}, at(30))
	of(31, "alice", "fan")
	want := []string{
		"1 taint a:NoSchedule added; alice; fan",
		"3 taint a:NoSchedule removed",
		"6 taint a:NoSchedule added; bob; firmware",
		"20 taint a:NoSchedule changed; carol; my test",
		"22 taint a:NoSchedule changed; rule/a",
		"30 taint a:NoSchedule removed",
		"31 taint a:NoSchedule added; alice; fan",
	}
	expect(t, lines(&store, gpu, time.Time{}), want...)
	store.Observe(history.Observation{Device: gpu}, at(32))
	of(33, "alice", "fan")
	want[6] = "31 taint a:NoSchedule added (2 times); alice; fan"
	expect(t, lines(&store, gpu, time.Time{}), want...)
}

// TestAway: the taint of a rule outlasts the absence of a device. A taint that returns to a published device begins
// then, whatever its time.
func TestAway(t *testing.T) {
	var store history.Store
	e := taint("a:NoSchedule", at(1))
	e.Source, e.By = "rule/a", "alice"
	observe := func(minute int, unpublished bool, entries ...history.Entry) {
		store.Observe(history.Observation{Device: gpu, Unpublished: unpublished, Entries: entries}, at(minute))
	}
	observe(1, false, e)
	observe(60, true)
	expect(t, lines(&store, gpu, time.Time{}), "1 taint a:NoSchedule added; alice", "60 taint a:NoSchedule ended; the device is no longer published")
	observe(75, false, e)
	observe(120, true)
	e.By = "bob"
	observe(125, false, e)
	observe(130, false)
	observe(150, false, e)
	observe(160, true)
	e.Begin = at(170)
	observe(180, false, e)
	expect(t, lines(&store, gpu, time.Time{}),
		"1 taint a:NoSchedule added; alice",
		"125 taint a:NoSchedule changed; bob",
		"130 taint a:NoSchedule removed",
		"150 taint a:NoSchedule added; bob",
		"160 taint a:NoSchedule ended; the device is no longer published",
		"170 taint a:NoSchedule added; bob")
}

// TestRounds: each round of a reaction is recorded, with its own cause, and each text of an acknowledgement.
func TestRounds(t *testing.T) {
	var store history.Store
	e := history.Entry{Kind: history.Reaction, Name: "xid", Reason: "xid 79", Begin: at(0)}
	drain := history.Entry{Kind: history.Drain, Name: "a", Begin: at(0)}
	for i, step := range []history.Step{
		{State: "Sick", Cause: "xid 79"},
		{State: "Draining", Cause: "xid 79", Message: "pod a restarts"},
		{State: "Draining", Cause: "xid 79", Message: "pod b restarts"},
		{State: "Acknowledged", Message: "replaced"},
		{State: "Sick", Cause: "xid 48"},
		{State: "Draining", Cause: "xid 48"},
	} {
		e.Reason, e.Steps = step.Cause, []history.Step{step}
		drain.Steps = []history.Step{{State: "Acknowledged", Message: fmt.Sprint("OPS-", i/4)}, {Time: at(0), State: "Drained"}}
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{e, drain}}, at(i))
	}
	expect(t, lines(&store, gpu, time.Time{}),
		"0 reaction xid began; xid 79",
		"0 reaction xid: Sick",
		"0 drain a created",
		"0 drain a: Acknowledged; OPS-0",
		"0 drain a: Drained",
		"1 reaction xid: Draining; pod a restarts",
		"3 reaction xid: Acknowledged; replaced",
		"4 reaction xid: Sick; xid 48",
		"4 drain a: Acknowledged; OPS-1",
		"5 reaction xid: Draining")
}

// TestManySteps: with many changes of a drain, by whom it is now stays, and what is left out is not recorded again.
func TestManySteps(t *testing.T) {
	var store history.Store
	e := history.Entry{Kind: history.Drain, Name: "a", By: "alice", Begin: at(0), Steps: []history.Step{{Time: at(1), State: "Blocked"}, {Time: at(2), State: "Drained"}}}
	observe := func(minute int) {
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{e}}, at(minute))
	}
	for i := range 20 {
		e.By = fmt.Sprint("user-", i)
		observe(3 + i)
	}
	for i := range 20 {
		e.Steps[0].Time = at(30 + i)
		observe(30 + i)
	}
	r := store.Of(gpu)
	text := fmt.Sprint(r)
	observe(60)
	if again := fmt.Sprint(store.Of(gpu)); again != text {
		t.Errorf("%s becomes %s", text, again)
	}
	if got := lines(&store, gpu, time.Time{}); len(r.Entries[0].Steps) != history.MaxSteps || !slices.Contains(got, "22 drain a changed; user-19") {
		t.Error(got)
	}
}

// TestBounds: a record, a shard and a memory have at most what they may have, and say what is left
// out.
func TestBounds(t *testing.T) {
	var store history.Store
	long := strings.Repeat("x", 250)
	for i := range 40 {
		e := taint(fmt.Sprintf("%s%d:NoExecute", long, i), at(i))
		e.Reason = "\u001b]0;\n\"" + strings.Repeat("é", 10_000)
		for j := range 20 {
			e.Steps = append(e.Steps, history.Step{Time: at(i), State: fmt.Sprint("State", j), Message: strings.Repeat("m", 10_000)})
		}
		var all []history.Holder
		for j := range 20 {
			h := holder(fmt.Sprint(long, i, "-", j), at(i), long+"a", long+"b", long+"c", long+"d", long+"e", long+"f")
			h.Claim = long
			all = append(all, h)
		}
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{e}, Holders: all}, at(i))
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{e}, Holders: all}, at(i))
	}
	r := store.Of(gpu)
	text, err := json.Marshal(r)
	if err != nil || len(text) > 20<<10 || len(r.Entries) > history.MaxEntries || len(r.Holders) > history.MaxHolders {
		t.Errorf("%d bytes, %d entries, %d holders, %v", len(text), len(r.Entries), len(r.Holders), err)
	}
	if r.CutEntries == 0 || r.CutHolders == 0 || strings.ContainsAny(string(text), "\n") || strings.Contains(string(text), `\u001b`) {
		t.Errorf("cut %d and %d in %.300s", r.CutEntries, r.CutHolders, text)
	}
}

// TestStorm: a driver taints 10,000 devices again and again, with values of its own making. The record of
// another driver stays, all is stored in 10 MB, and what was left out is counted.
func TestStorm(t *testing.T) {
	var store history.Store
	random := rand.New(rand.NewPCG(1, 2))
	other := v1alpha1.DeviceName{Driver: "other.example.com", Pool: "p", Device: "d"}
	store.Observe(history.Observation{Device: other, Entries: []history.Entry{taint("a:NoSchedule", at(0))}}, at(0))
	for round := range 8 {
		for i := range 10_000 {
			device := v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: fmt.Sprint("node-", i/8), Device: fmt.Sprint("gpu-", i%8)}
			e := taint(fmt.Sprintf("example.com/%x%x%x:NoExecute", random.Uint64(), random.Uint64(), random.Uint64()), at(round))
			e.Reason = fmt.Sprintf("%x%x%x%x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())
			store.Observe(history.Observation{Device: device, Entries: []history.Entry{e},
				Holders: []history.Holder{holder(fmt.Sprintf("%x%x", random.Uint64(), random.Uint64()), at(round), fmt.Sprintf("pod-%x", random.Uint64()))}}, at(round))
		}
	}
	sum := 0
	for _, shard := range store.Changed() {
		data, err := store.Encode(shard)
		if err != nil || len(data) > history.ShardBytes {
			t.Fatalf("shard %d: %d bytes, %v", shard, len(data), err)
		}
		sum += len(data)
	}
	cut := store.Cut()
	t.Logf("%d bytes, %d devices left out", sum, cut.Devices)
	if sum > 10_000_000 || cut.Devices == 0 || cut.Until.IsZero() || !store.Has(other) {
		t.Errorf("%d bytes, cut %v, the other driver: %v", sum, cut, store.Has(other))
	}
}

// TestLeftOut: a device that is observed again and again, and left out each time, counts once.
func TestLeftOut(t *testing.T) {
	var store history.Store
	const devices = 5000
	for range 5 {
		for i := range devices {
			e := taint("a:NoSchedule", at(0))
			for j := range history.MaxSteps {
				e.Steps = append(e.Steps, history.Step{Time: at(j), State: "Blocked", Message: strings.Repeat("x", 256)})
			}
			device := v1alpha1.DeviceName{Driver: gpu.Driver, Pool: gpu.Pool, Device: fmt.Sprint("gpu-", i)}
			store.Observe(history.Observation{Device: device, Entries: []history.Entry{e}}, at(10))
		}
	}
	data, err := store.Encode(history.ShardOf(gpu))
	if err != nil {
		t.Fatal(err)
	}
	if cut := store.Cut().Devices; cut < devices-store.Len() || cut > devices {
		t.Errorf("%d of %d devices were left out, %d are there", cut, devices, store.Len())
	}
	var next history.Store
	if err := next.Decode(history.ShardOf(gpu), data, at(11)); err != nil || next.Cut().Devices != store.Cut().Devices {
		t.Errorf("%v, %v", next.Cut(), err)
	}
}

// TestMemory: all devices keep as many holders of before as there is room for.
func TestMemory(t *testing.T) {
	var memory history.Memory
	device := func(i int) v1alpha1.DeviceName {
		return v1alpha1.DeviceName{Driver: "d", Pool: fmt.Sprint(i / 8), Device: fmt.Sprint(i % 8)}
	}
	hold := func(i, n int) {
		uid := fmt.Sprint(i, "/", n)
		memory.Hold(holder(uid, at(n)), []v1alpha1.DeviceName{device(i)}, at(n))
		memory.Release(uid, at(n))
	}
	for n := range 20 { // a tenant who churns on one device
		hold(0, n)
	}
	for n := range 4 {
		for i := 1; i <= 20_000; i++ {
			hold(i, n)
		}
	}
	if past := memory.Take(device(0)); len(past.Holders) != 2 || past.Cut != 18 {
		t.Errorf("%d of the device with many, without %d", len(past.Holders), past.Cut)
	}
	past := memory.Take(device(20_000))
	if n := len(past.Holders); n == 0 || n > 4 || past.Holders[n-1].UID != "20000/3" || n+past.Cut != 4 {
		t.Errorf("%v", past)
	}
	memory.Expire(at(0).Add(history.Age + time.Hour))
	if past := memory.Take(device(7)); past.Holders != nil {
		t.Errorf("%v", past)
	}
	for i := range history.MaxPrevious {
		hold(i, 50)
	}
	if !memory.Since.IsZero() {
		t.Errorf("holders before %s are forgotten", memory.Since)
	}
	hold(history.MaxPrevious, 51)
	if !memory.Since.Equal(at(51)) {
		t.Errorf("holders before %s are forgotten", memory.Since)
	}
}

// TestTwoClocks: the next leader saw the end of a use at another second. That is the same use, and the next one of the
// claim is not.
func TestTwoClocks(t *testing.T) {
	var store history.Store
	xid := taint("a:NoSchedule", at(0))
	use := func(since, until int) history.Holder {
		h := holder("1", at(since))
		h.Until = at(until)
		return h
	}
	for _, uses := range [][]history.Holder{{use(1, 3), use(5, 8)}, {use(1, 4), use(5, 7)}, {use(2, 3), use(5, 8), use(8, 9)}} {
		store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{xid}, Previous: history.Past{Holders: uses}}, at(9))
	}
	expect(t, lines(&store, gpu, time.Time{}), "0 taint a:NoSchedule added; driver/gpu.example.com",
		"1 held by team-a/claim-1", "3 released by team-a/claim-1", "5 held by team-a/claim-1", "8 released by team-a/claim-1",
		"8 held by team-a/claim-1", "9 released by team-a/claim-1")
}

// TestReturn: the holders of a record that is left out are in the next record of the device.
func TestReturn(t *testing.T) {
	var memory history.Memory
	var store history.Store
	month := int(history.Age / time.Minute)
	store.Dropped = func(r *history.Record) { memory.Return(r, at(month)) }
	observe := func(minute int, entries ...history.Entry) {
		store.Observe(history.Observation{Device: gpu, Entries: entries, Holders: memory.Holders(gpu), Previous: memory.Take(gpu)}, at(minute))
	}
	observe(0, taint("a:NoSchedule", at(0)))
	observe(1)
	for i := range 20 {
		uid, minute := fmt.Sprintf("%02d", i), month-40+i
		memory.Hold(holder(uid, at(minute)), []v1alpha1.DeviceName{gpu}, at(minute))
		memory.Release(uid, at(minute))
	}
	observe(month - 10)
	store.Expire(at(month + 10))
	if store.Has(gpu) {
		t.Fatal("what ended long ago is kept")
	}
	observe(month+20, taint("a:NoSchedule", at(month+20)))
	r := store.Of(gpu)
	if n := len(r.Holders); n != history.MaxHolders || r.Holders[n-1].UID != "19" || r.CutHolders != 12 {
		t.Errorf("%d holders, without %d: %v", n, r.CutHolders, r.Holders)
	}
}

// TestWrong: what is not ours, cut off or of another version is an error, and what lies is passed over.
func TestWrong(t *testing.T) {
	pack := func(lines ...string) []byte {
		var all [][]byte
		for _, line := range lines {
			all = append(all, []byte(line))
		}
		data, _, err := packed.Lines(all, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for text, data := range map[string][]byte{
		"EOF":             []byte("else"),
		"format 2":        pack(`{"format":2}`),
		"format 0":        pack(`{}`),
		"cannot unmarsha": pack(`{"format":1}`, `{"entries":3}`),
		"larger than":     pack(`{"format":1}`, strings.Repeat(" ", 9<<20)),
	} {
		var store history.Store
		if err := store.Decode(0, data, at(0)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	var store history.Store
	record := fmt.Sprintf(`{"driver":%q,"pool":%q,"device":%q,"entries":[{"kind":"taint","name":"a:NoSchedule","begin":"2026-11-24T06:00:00Z"}]}`, gpu.Driver, gpu.Pool, gpu.Device)
	if err := store.Decode((history.ShardOf(gpu)+1)%history.Shards, pack(`{"format":1}`, record), at(0)); err != nil || store.Has(gpu) {
		t.Errorf("a record in the wrong place counts: %v", err)
	}
}

// FuzzDecode: nothing that is stored stops the program, and what is read is within the bounds and is written the
// same again.
func FuzzDecode(f *testing.F) {
	var store history.Store
	store.Observe(history.Observation{Device: gpu, Entries: []history.Entry{taint("a:NoSchedule", at(0))}, Holders: []history.Holder{holder("1", at(0), "a", "b")}}, at(1))
	for r := range store.Records {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(`{"format":1,"cut":{"devices":-3}}` + "\n" + string(text))
	}
	f.Add(`{"format":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		data, _, err := packed.Lines([][]byte{[]byte(text)}, 1<<20)
		if err != nil || len(data) == 0 {
			return
		}
		var read, again history.Store
		shard := history.ShardOf(gpu)
		if err := read.Decode(shard, data, at(100)); err != nil {
			return
		}
		for r := range read.Records {
			if len(r.Entries) > history.MaxEntries || len(r.Holders) > history.MaxHolders {
				t.Fatalf("%d entries, %d holders", len(r.Entries), len(r.Holders))
			}
			r.Timeline(time.Time{})
		}
		read.Change(shard)
		if data, err = read.Encode(shard); err != nil {
			t.Fatal(err)
		}
		if err := again.Decode(shard, data, at(100)); err != nil {
			t.Fatal(err)
		}
		if a, b := slices.Collect(read.Records), slices.Collect(again.Records); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v is read as %+v", a, b)
		}
	})
}

// FuzzObserve: whatever comes and goes, in whatever order, records stay within their bounds, have what holds
// the device now, and the same state twice changes nothing.
func FuzzObserve(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0xff, 0, 7})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var store history.Store
		now := begin
		for i, op := range ops[:min(len(ops), 500)] {
			now = now.Add(time.Duration(op) * time.Second)
			o := history.Observation{Device: gpu}
			for bit := range 8 {
				if op&(1<<bit) == 0 {
					continue
				}
				if bit < 4 {
					o.Entries = append(o.Entries, taint(fmt.Sprintf("key-%d:NoSchedule", bit), now.Add(time.Duration(i-250)*time.Hour)))
				} else {
					o.Holders = append(o.Holders, holder(fmt.Sprint(bit), now.Add(-time.Minute), fmt.Sprint("pod-", i)))
				}
			}
			store.Observe(o, now)
			for _, shard := range store.Changed() {
				if _, err := store.Encode(shard); err != nil {
					t.Fatal(err)
				}
			}
			store.Observe(o, now)
			if len(store.Changed()) > 0 {
				t.Fatalf("the same state is a change: %+v", store.Of(gpu))
			}
			r := store.Of(gpu)
			if r == nil {
				continue
			}
			held, open := 0, 0
			for _, h := range r.Holders {
				if h.Until.IsZero() {
					held++
				}
			}
			for _, e := range r.Entries {
				if e.End.IsZero() {
					open++
				}
			}
			if held != len(o.Holders) || open != len(o.Entries) || len(r.Holders) > history.MaxHolders || len(r.Entries) > history.MaxEntries {
				t.Fatalf("%d of %d hold it, %d of %d entries stand: %+v", held, len(o.Holders), open, len(o.Entries), r)
			}
		}
	})
}
