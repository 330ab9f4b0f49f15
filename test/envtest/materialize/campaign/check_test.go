package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const (
	// convergence is the time for slices to be as they must be, undisturbed: a pool whose update does
	// not help is updated again within a minute.
	convergence = 3 * time.Minute
	// forgetting is the time for records to vanish.
	forgetting = 90 * time.Second
	// copied is longer than the leader needs for the copy of what drivers said.
	copied = 12 * time.Second
	// shown is how many writes of a pool a difference shows.
	shown = 30
)

// silence is longer than any driver waits before it looks at what is stored.
func silence() time.Duration { return slices.Max(driverDelays())*3/2 + 2*time.Second }

// checkPatched: slices come to contain what drivers publish and what patches say.
func (c *campaign) checkPatched(t *testing.T) {
	t.Helper()
	c.readAudit(t)
	for _, d := range c.drivers {
		if n := c.excuses(d); n > 0 { // the page: restart the driver; that is always safe
			c.excused += n
			if err := d.restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.settle(t, "with patches", silence())
}

// excuses counts the slices of a driver with values that the page excuses.
func (c *campaign) excuses(d *driver) (n int) {
	running, leading := c.faults.spans()
	for _, pool := range d.pools() {
		for _, loss := range c.audit.losses(pool.Driver, pool.Name, d.renewed) {
			if model.Excused(loss, running, leading) {
				n++
			}
		}
	}
	return n
}

// checkLost: nothing is lost if the slices of a driver are deleted, and created again, while none of
// ours runs, and a patch changes meanwhile.
func (c *campaign) checkLost(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	longrun.Until(ctx, c.audit.last().Add(copied))
	d := c.drivers[c.random.IntN(len(c.drivers))]
	c.w.note(faultPrefix+"none of ours, after a while", "%s", d.name)
	c.faults.lost++
	if err := c.faults.hold(c.faults.all(), proc.Kill); err != nil {
		t.Fatal(err)
	}
	all, err := c.w.slices(ctx, d.name)
	if err == nil {
		err = c.w.deleteSlices(ctx, all)
	}
	if err == nil && c.random.IntN(2) == 0 {
		err = c.patcher.operate(ctx)
	}
	if err == nil {
		err = c.recreated(ctx, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	release(c.faults.all())
	c.faults.calm(t)
	if c.settle(t, "after a loss", silence()) {
		c.checkReverted(t)
	}
}

// checkKilled: nothing is lost if a patch has changed just before, the slices of a driver are deleted,
// and both webhooks are killed before it creates them again: the leader runs. The copy is perhaps of
// the change before.
func (c *campaign) checkKilled(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	d := c.drivers[0] // the one that adopts values first
	all := c.patcher.drivers
	c.patcher.drivers = []string{d.name}
	defer func() { c.patcher.drivers = all }()
	for range 3 {
		if err := c.patcher.operate(ctx); err != nil {
			t.Fatal(err)
		}
		longrun.Until(ctx, time.Now().Add(1500*time.Millisecond))
	}
	if !c.settle(t, "after a change of patches", d.delay*3/2) { // then it has adopted the values
		return
	}
	c.w.note(faultPrefix+"slices deleted, both webhooks killed", "%s", d.name)
	stored, err := c.w.slices(ctx, d.name)
	if err == nil {
		err = c.w.deleteSlices(ctx, stored)
	}
	if err == nil {
		err = c.faults.kill(c.faults.webhooks...)
	}
	if err == nil {
		err = c.recreated(ctx, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.faults.calm(t)
	if c.settle(t, "after slices were deleted and webhooks killed", silence()) {
		c.checkReverted(t)
	}
}

// checkReverted: to delete patches reverts them, although no driver publishes again.
func (c *campaign) checkReverted(t *testing.T) {
	t.Helper()
	if err := c.patcher.removeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.settle(t, "without patches, nothing published", silence())
}

// recreated waits until a driver has created all its slices again.
func (c *campaign) recreated(ctx context.Context, d *driver) error {
	want := 0
	for _, pool := range d.pools() {
		want += len(pool.Slices)
	}
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, convergence, true, func(ctx context.Context) (bool, error) {
		all, err := c.w.slices(ctx, d.name)
		return len(all) == want, err
	})
}

// checkFreed: after the last patch is gone and each driver has published once, slices equal what the
// drivers publish. If that changed every device, no record is left: a driver writes nothing if the
// slices already are what it publishes, and then a record has to stay.
func (c *campaign) checkFreed(t *testing.T) {
	t.Helper()
	changed := c.random.IntN(3) > 0
	if err := c.patcher.removeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.drivers {
		for i := range maxPools { // of a pool without slices, the record is kept for a day
			if name := fmt.Sprint("pool-", i); d.truth[name] == nil {
				d.addPool(name)
			}
		}
		if changed {
			d.renumber()
		}
		d.publish()
		c.w.note("values published once", "%s", d.name)
	}
	if c.settle(t, "without patches", silence()) && changed {
		c.checkRecords(t)
	}
}

// readAudit reports what the audit log has that the page rules out.
func (c *campaign) readAudit(t *testing.T) {
	t.Helper()
	for _, problem := range c.audit.read(t, c.faults.restarts) {
		c.differ(t, problem)
	}
	for _, d := range c.drivers {
		for _, err := range d.takeRefusals() {
			c.differ(t, fmt.Sprintf("%s cannot publish: %v", d.name, err))
		}
	}
}

func (c *campaign) differ(t *testing.T, text string) {
	t.Helper()
	c.differences++
	t.Error(text)
}

// expected are all pools as they must be stored.
func (c *campaign) expected() (all []model.Pool) {
	var patches []model.Patch
	for _, p := range c.patcher.live {
		patches = append(patches, p)
	}
	for _, d := range c.drivers {
		for _, pool := range d.pools() {
			all = append(all, model.Expect(pool, patches))
		}
	}
	return all
}

// settle waits until the slices are as they must be and nothing has written for a while, and reports
// what differs otherwise. A driver whose slices differ is restarted, so that one defect hides no other.
func (c *campaign) settle(t *testing.T, when string, quiet time.Duration) bool {
	t.Helper()
	expected, begin := c.expected(), time.Now()
	var stored []resourceapi.ResourceSlice
	var differences []model.Difference
	versions, since := "", begin
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, convergence, true, func(ctx context.Context) (done bool, err error) {
		if stored, err = c.w.slices(ctx, ""); err != nil {
			return false, err
		}
		if now := versionsOf(stored); now != versions {
			versions, since = now, time.Now()
		}
		differences = model.Compare(expected, stored)
		return len(differences) == 0 && time.Since(since) > quiet, nil
	})
	c.checks++
	c.compared += len(stored)
	c.slowest = max(c.slowest, time.Since(begin))
	c.readAudit(t)
	if err == nil {
		c.planted(t, expected, stored)
		t.Logf("%s: %d slices of %d pools with %d patches are right after %s", when, len(stored), len(expected), len(c.patcher.live), time.Since(begin).Round(time.Second))
		return true
	}
	if len(differences) == 0 {
		c.differ(t, fmt.Sprintf("%s: writes do not end: %v", when, err))
	}
	c.report(t, when, differences)
	return false
}

func versionsOf(all []resourceapi.ResourceSlice) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, s.Name+"@"+s.ResourceVersion)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// report describes differences, with the writes of the pools and what happened in the last minutes.
func (c *campaign) report(t *testing.T, when string, differences []model.Difference) {
	t.Helper()
	last, drivers := "", map[string]bool{}
	for _, d := range differences {
		c.differ(t, fmt.Sprintf("%s: %s", when, d))
		if pool := d.Driver + "/" + d.Pool; pool != last {
			last = pool
			t.Logf("writes of %s:\n%s", pool, strings.Join(c.audit.evidence(d.Driver, d.Pool, shown), "\n"))
		}
		drivers[d.Driver] = true
	}
	for _, p := range c.patcher.live {
		t.Logf("patch %+v", p)
	}
	t.Logf("what happened:\n%s", strings.Join(c.w.lately(time.Now().Add(-convergence-2*roundLength)), "\n"))
	for _, r := range c.faults.all() {
		t.Logf("%s was ready %v", r.name, r.readyTimes())
	}
	for _, d := range c.drivers {
		if drivers[d.name] {
			if err := d.restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// planted fails unless a value that is changed, one that is missing, one that is added, a slice that
// is missing and one of before are found in what is right.
func (c *campaign) planted(t *testing.T, expected []model.Pool, stored []resourceapi.ResourceSlice) {
	t.Helper()
	at := c.random.IntN(len(stored))
	for name, plant := range map[string]func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice{
		"a changed value": func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice {
			all[at].Spec.Devices[0].Attributes["serial"] = resourceapi.DeviceAttribute{StringValue: new("planted")}
			return all
		},
		"a missing value": func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice {
			delete(all[at].Spec.Devices[0].Attributes, "serial")
			return all
		},
		"an added value": func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice {
			all[at].Spec.Devices[0].Attributes["example.com/planted"] = attributeOf("model", 1)
			return all
		},
		"a missing slice": func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice { return slices.Delete(all, at, at+1) },
		"a slice of before": func(all []resourceapi.ResourceSlice) []resourceapi.ResourceSlice {
			return append(all, *all[at].DeepCopy())
		},
	} {
		var copies []resourceapi.ResourceSlice
		for i := range stored {
			copies = append(copies, *stored[i].DeepCopy())
		}
		if len(model.Compare(expected, plant(copies))) == 0 {
			t.Errorf("%s, planted in slice %s, is not found", name, stored[at].Name)
		}
	}
}

// checkRecords: no ConfigMap is left when the drivers have published their own values again.
func (c *campaign) checkRecords(t *testing.T) {
	t.Helper()
	var left []string
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, forgetting, true, func(ctx context.Context) (bool, error) {
		left = nil
		err := c.w.write(ctx, func(ctx context.Context) error {
			list, err := c.w.CoreV1().ConfigMaps(controller.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=dra-steward-materialize"})
			if err != nil {
				return err
			}
			for _, object := range list.Items {
				for _, data := range object.BinaryData {
					records, err := record.DecodeRecords(data)
					left = append(left, fmt.Sprintf("%s: %v\n%s", object.Name, err, c.describe(records)))
				}
			}
			return nil
		})
		return len(left) == 0, err
	})
	if err != nil {
		c.differ(t, fmt.Sprintf("records are left when drivers have published their own values: %v\n%s", err, strings.Join(left, "\n")))
	}
}

// describe shows what records have, and the last writes of their pools.
func (c *campaign) describe(records []record.Record) string {
	var parts []string
	for _, r := range records {
		for name, said := range r.Originals {
			parts = append(parts, fmt.Sprintf("%s/%s/%s: %d entries, %+v", r.Driver, r.Pool, name, len(said.Entries), record.Originals{name: said}.Count()))
		}
		parts = append(parts, c.audit.evidence(r.Driver, r.Pool, 8)...)
	}
	return strings.Join(parts, "\n")
}
