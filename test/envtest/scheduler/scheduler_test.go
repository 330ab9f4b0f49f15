package scheduler_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

const onlyPatched = "profiles:\n- schedulerName: default-scheduler" + patched

// A pod waits for an attribute that no driver publishes. With the patch it is bound, the
// published slice stays what it is, and without the patch the pod stays where it is.
// Priority, age, null and capacity decide where pods land.
func TestPlacement(t *testing.T) {
	w := start(t, onlyPatched, "node-0")
	w.installType(t)
	w.grant(t)
	w.publish(t, "node-0",
		resourceapi.Device{Name: "a", Attributes: attribute("old"), Capacity: memory("80Gi")},
		resourceapi.Device{Name: "b", Attributes: attribute("old"), Capacity: memory("80Gi")},
		resourceapi.Device{Name: "c", Attributes: attribute("old"), Capacity: memory("80Gi")})

	selects := func(attribute, value string) string {
		return fmt.Sprintf(`device.attributes["dc.example.com"].?%s.orValue("") == "%s"`, attribute, value)
	}
	for _, tt := range []struct {
		name, selector, want string
		patches              []string
	}{
		{"attribute", selects("rack", "r12"), "node-0/b", []string{
			`{filter: {device: b}, attributes: {dc.example.com/rack: {string: r12}}}`}},
		{"priority", selects("tier", "gold"), "node-0/c", []string{
			`{attributes: {dc.example.com/tier: {string: iron}}}`,
			`{priority: 5, filter: {device: c}, attributes: {dc.example.com/tier: {string: gold}}}`}},
		{"age", selects("zone", "first"), "node-0/a", []string{
			`{filter: {device: a}, attributes: {dc.example.com/zone: {string: first}}}`,
			`{attributes: {dc.example.com/zone: {string: second}}}`}},
		{"null", `!has(device.attributes["gpu.example.com"].model)`, "node-0/b", []string{
			`{filter: {device: b}, attributes: {gpu.example.com/model: {"null": {}}}}`}},
		{"capacity", `device.capacity["gpu.example.com"].memory.compareTo(quantity("90Gi")) > 0`, "node-0/c", []string{
			`{filter: {device: c}, capacity: {gpu.example.com/memory: {value: 96Gi}}}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.ask(t, tt.name, corev1.DefaultSchedulerName, tt.selector)
			w.isPending(t, tt.name)
			for i, patch := range tt.patches {
				w.patch(t, fmt.Sprintf("%s-%d", tt.name, i), patch)
				if tt.name == "age" && i == 0 { // times of creation have no unit below a second
					begin := time.Now()
					eventually(t, "the second is over", func() bool { return time.Since(begin) > 1100*time.Millisecond })
				}
			}
			if got := w.isBound(t, tt.name); got != tt.want {
				t.Errorf("the pod got %s, want %s", got, tt.want)
			}
			for i := range tt.patches {
				w.unpatch(t, fmt.Sprintf("%s-%d", tt.name, i))
			}
			if got := w.device(t, tt.name); got != tt.want {
				t.Errorf("without the patch the pod has %q", got)
			}
			w.free(t, tt.name)
		})
	}
	w.atOnce(t)
	slice, err := w.ResourceV1().ResourceSlices().Get(t.Context(), "node-0", metav1.GetOptions{})
	if err != nil || slice.Generation != 1 {
		t.Errorf("the published slice has changed: %v %v", slice, err)
	}
}

// atOnce lets patches come while the pods that wait for them are being tried.
func (w *world) atOnce(t *testing.T) {
	t.Helper()
	for round := range 10 {
		name := fmt.Sprintf("at-once-%d", round)
		parallel(t, []func(){
			func() {
				w.ask(t, name, "", fmt.Sprintf(`device.attributes["dc.example.com"].?round.orValue(-1) == %d`, round))
			},
			func() {
				w.patch(t, name, fmt.Sprintf(`{priority: %d, attributes: {dc.example.com/round: {int: %d}}}`, round, round))
			},
		})
		w.isBound(t, name)
		w.free(t, name)
	}
}

// free deletes a pod and waits until its device is free.
func (w *world) free(t testing.TB, name string) {
	t.Helper()
	if err := w.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the device is free", func() bool {
		claim, err := w.ResourceV1().ResourceClaims("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && claim.Status.Allocation == nil
	})
}

// Without the type, and without the right to read it, pods are scheduled as ever, with and
// without claims, and an event says that patches do not count; they do as soon as they can.
func TestWithoutPatches(t *testing.T) {
	w := start(t, onlyPatched, "node-0")
	w.publish(t, "node-0", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"}, resourceapi.Device{Name: "c"})
	w.create(t, plainPod("plain", ""))
	w.ask(t, "claim", "", "")
	w.isBound(t, "claim")
	eventually(t, "the plain pod is bound", func() bool {
		pod, err := w.CoreV1().Pods("default").Get(t.Context(), "plain", metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != ""
	})
	w.isSaid(t, "PatchesForbidden", "cannot list resource")
	w.grant(t)
	w.isSaid(t, "PatchesNotInstalled", "the API server has no ResourceSlicePatch")
	w.ask(t, "unpatched", "", "")
	w.isBound(t, "unpatched")
	w.ask(t, "patched", "", `device.attributes["dc.example.com"].?rack.orValue("") == "r12"`)
	w.isPending(t, "patched")
	w.installType(t)
	w.patch(t, "rack", `{attributes: {dc.example.com/rack: {string: r12}}}`)
	w.isBound(t, "patched")
	w.isSaid(t, "PatchesOn", "ResourceSlicePatches are applied again")
}

// isSaid waits for an event of the scheduler.
func (w *world) isSaid(t *testing.T, reason, note string) {
	t.Helper()
	eventually(t, "the event "+reason, func() bool { return w.saidYet(t, reason, note) })
}

// saidYet reports whether there is an event with that reason and note.
func (w *world) saidYet(t *testing.T, reason, note string) bool {
	t.Helper()
	all, err := w.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all.Items, func(event eventsv1.Event) bool {
		return event.Reason == reason && strings.Contains(event.Note, note)
	})
}

// Two profiles of one process, with our plugin and with that of Kubernetes, never give a
// device away twice, and one sees patches. One round; 20 in make test-long.
func TestTwoProfiles(t *testing.T) {
	rounds := 1
	if os.Getenv("DRA_STEWARD_LONG") != "" {
		rounds = 20
	}
	w := start(t, "profiles:\n- schedulerName: stock\n- schedulerName: patched"+patched, "node-0", "node-1")
	w.installType(t)
	w.grant(t)
	w.patch(t, "rack", `{attributes: {dc.example.com/rack: {string: r12}}}`)
	const devices = 12
	for _, node := range []string{"node-0", "node-1"} {
		var all []resourceapi.Device
		for i := range devices {
			all = append(all, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		w.publish(t, node, all...)
	}
	for round := range rounds {
		w.twoProfiles(t, round, 2*devices)
	}
	w.anotherScheduler(t)
	w.materialized(t)
}

// materialized writes into a slice what the webhook writes when patches are materialized,
// here one that is not there any more: our scheduler tells, and goes by what the driver said.
func (w *world) materialized(t *testing.T) {
	t.Helper()
	gold := resourceapi.DeviceAttribute{StringValue: ptr.To("gold")}
	entry := record.Entry{Published: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To("iron")}},
		Written: record.Value{Attribute: &gold}, Patch: "gone"}
	originals, err := record.Originals{"gpu-3": {Entries: map[record.Key]record.Entry{{Name: "tier"}: entry}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	slices := w.ResourceV1().ResourceSlices()
	slice, err := slices.Get(t.Context(), "node-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice.Annotations = map[string]string{record.Annotation: originals}
	for i := range slice.Spec.Devices {
		if slice.Spec.Devices[i].Name == "gpu-3" {
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"tier": gold}
		}
	}
	if _, err := slices.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.isSaid(t, "PatchesMaterialized", "ResourceSlice node-0 has values of ResourceSlicePatches written into it")
	selects := func(tier string) string {
		return fmt.Sprintf(`device.attributes["dc.example.com"].rack == "r12" && device.attributes["gpu.example.com"].?tier.orValue("") == "%s"`, tier)
	}
	w.ask(t, "written", "patched", selects("gold"))
	w.isPending(t, "written")
	w.ask(t, "said", "patched", selects("iron"))
	if got := w.isBound(t, "said"); got != "node-0/gpu-3" {
		t.Errorf("the pod got %s", got)
	}
	w.ask(t, "stock", "stock", "")
	if w.isBound(t, "stock"); w.device(t, "written") != "" {
		t.Error("the value that was written counts")
	}
}

// anotherScheduler binds pods with claims as a second scheduler does: one of a name that no
// profile has, and some of a profile with the plugin. Our scheduler reports both, the latter
// once it has led for a while.
func (w *world) anotherScheduler(t *testing.T) {
	t.Helper()
	bind := func(pod string) {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}
		if err := w.CoreV1().Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.ask(t, "foreign", "elsewhere", "")
	bind("foreign")
	w.isSaid(t, "AnotherScheduler", `scheduler "elsewhere" has bound pod default/foreign with ResourceClaims`)
	const said = `another process that serves the profile "patched" has bound pod default/taken-`
	for i := 0; !w.saidYet(t, "AnotherScheduler", said); i++ {
		if i == 30 {
			t.Fatal("30 pods of a profile that another client has bound are not reported")
		}
		pod := fmt.Sprintf("taken-%d", i)
		w.ask(t, pod, "patched", `device.attributes["gpu.example.com"].?tier.orValue("") == "never"`)
		w.isPending(t, pod)
		bind(pod)
		<-time.After(time.Second)
	}
}

// twoProfiles fills all devices with pods of two profiles, and empties them.
func (w *world) twoProfiles(t *testing.T, round, n int) {
	t.Helper()
	var names []string
	var work []func()
	for i := range n {
		name := fmt.Sprintf("pod-%d-%d", round, i)
		names = append(names, name)
		profile, selector := "stock", ""
		if i%2 == 1 {
			profile, selector = "patched", `device.attributes["dc.example.com"].rack == "r12"`
		}
		work = append(work, func() { w.ask(t, name, profile, selector) })
	}
	parallel(t, work)
	var taken []string
	for _, name := range names {
		taken = append(taken, w.isBound(t, name))
	}
	slices.Sort(taken)
	once := slices.Compact(slices.Clone(taken))
	t.Logf("round %d: %d pods have %d devices", round, len(taken), len(once))
	if len(once) != len(taken) {
		t.Errorf("devices were given away twice: %v", taken)
	}
	for _, name := range names {
		if err := w.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.ResourceV1().ResourceClaims("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the devices are free", func() bool {
		claims, err := w.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(claims.Items) == 0
	})
}
