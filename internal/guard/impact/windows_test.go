package impact

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
)

// inWindows is the request to drain a node of a crowd at the default rate. Time begins on a Saturday.
func inWindows(t *testing.T, node int, texts ...string) admission.Request {
	t.Helper()
	request := drains(t, node, v1alpha1.DrainRate)
	d := stored(t, request)
	for _, text := range texts {
		w, err := windows.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Spec.Windows = append(d.Spec.Windows, w)
	}
	request.Object.Raw = encoded(t, d)
	return request
}

// changes is the request to change a stored drain.
func changes(t *testing.T, old *v1alpha1.DeviceDrain, to admission.Request) admission.Request {
	t.Helper()
	to.Operation, to.OldObject.Raw = "UPDATE", encoded(t, old)
	return to
}

// afterOneAnother asks for drains of nodes eleven minutes after one another, and stores those that are admitted.
func afterOneAnother(t *testing.T, i *Estimator, h admission.Handler, nodes int, texts func(node int) []string) (all []*v1alpha1.DeviceDrain, said string) {
	t.Helper()
	for node := range nodes {
		request := inWindows(t, node, texts(node)...)
		if got := h.Handle(t.Context(), request); got.Allowed {
			all = append(all, stored(t, request))
			i.changed(nil, all[len(all)-1], time.Now())
		} else {
			said = got.Result.Message
		}
		<-time.After(11 * time.Minute)
	}
	return all, said
}

// TestDrainsOfOneNight is an attack: drains that wait for a window, created one after the other so that each has left the
// window of the guard when the next one is created. They begin together.
func TestDrainsOfOneNight(t *testing.T) {
	for name, tt := range map[string]struct {
		texts func(node int) []string
		want  int
	}{
		"the same time":  {func(int) []string { return []string{"22:00-05:00"} }, 5}, // 40 pods
		"in other zones": {func(node int) []string { return []string{[]string{"22:00-05:00", "23:00-05:00 Europe/Berlin"}[node%2]} }, 5},
		"minutes apart":  {func(node int) []string { return []string{fmt.Sprintf("22:0%d-05:00", node%10)} }, 5},
		"hours apart":    {func(node int) []string { return []string{fmt.Sprintf("%02d:30-05:00", 10+node%12)} }, 20},
		"nights apart":   {func(node int) []string { return []string{[]string{"Sat", "Sun"}[node%2] + " 22:00-05:00"} }, 10},
		"a minute before": {func(node int) []string {
			return []string{fmt.Sprintf("1%d:%d0-1%d:%d1", node/6, node%6, node/6, node%6), "22:00-05:00"}
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := crowd(t, 1000)
				h := guardOf(t, i, v1alpha1.StewardConfiguration{})
				<-time.After(5 * time.Hour)
				all, said := afterOneAnother(t, i, h, 20, tt.texts)
				if len(all) != tt.want {
					t.Errorf("%d drains were admitted, want %d: %s", len(all), tt.want, said)
				}
				if name == "the same time" && !strings.Contains(said, "together with the 5 evictions that begin within 10m, 48 pods are more than the threshold of 40: DeviceDrain node-0 (8 pods)") ||
					name == "the same time" && !strings.Contains(said, "or wait until 22:10 UTC") {
					t.Error(said)
				}
			})
		})
	}
}

// TestBesideThoseOfTheNight: drains that wait count against what begins when they do, until they have ended, and against
// nothing at noon.
func TestBesideThoseOfTheNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		all, _ := afterOneAnother(t, i, h, 5, func(int) []string { return []string{"22:00-05:00"} })
		asks := func(hour, minute int, want bool) {
			t.Helper()
			<-time.After(time.Until(time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC)))
			request := drains(t, 9, v1alpha1.DrainRate)
			request.DryRun = new(true)
			if got := h.Handle(t.Context(), request); got.Allowed != want {
				t.Errorf("%02d:%02d: allowed: %t: %v", hour, minute, got.Allowed, got.Result)
			}
		}
		asks(12, 0, true)
		asks(21, 50, true)
		asks(21, 51, false)
		asks(22, 0, false) // their statuses are not written yet
		<-time.After(5 * time.Second)
		for _, d := range all {
			evicts := d.DeepCopy()
			evicts.Status.Conditions = []metav1.Condition{{Type: v1alpha1.DrainDraining, Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: metav1.Now()}}
			i.changed(d, evicts, time.Now())
			again := crowd(t, 1000)
			again.changed(nil, evicts, time.Now().Add(9*time.Minute))
			if len(again.beginnings.all) != 1 {
				t.Error("a replica that starts does not count a drain whose window has opened")
			}
			for n := range d.Spec.Devices {
				var node int
				if _, err := fmt.Sscanf(d.Name, "node-%d", &node); err != nil {
					t.Fatal(err)
				}
				i.Index.DeletePod(fmt.Sprintf("team-%02d", node), fmt.Sprintf("trainer-%05d", 8*node+n))
			}
		}
		asks(22, 10, false) // the pods have left
		asks(22, 11, true)
		i.Deleted(all[0])
		if len(i.beginnings.waiting) != 4 {
			t.Errorf("%d drains wait, want 4", len(i.beginnings.waiting))
		}
	})
}

// TestNewWindows is an attack: drains of different nights get the windows of one night, or none, one right after the other.
func TestNewWindows(t *testing.T) {
	for name, texts := range map[string][]string{"the same": {"22:00-05:00"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := crowd(t, 1000)
				h := guardOf(t, i, v1alpha1.StewardConfiguration{})
				all, _ := afterOneAnother(t, i, h, 20, func(node int) []string {
					return []string{[]string{"Sun", "Mon", "Tue", "Wed", "Thu"}[node%5] + " 10:00-11:00"}
				})
				admitted := 0
				for node, d := range all {
					if request := changes(t, d, inWindows(t, node, texts...)); h.Handle(t.Context(), request).Allowed {
						admitted++
						i.changed(d, stored(t, request), time.Now())
					}
					if len(texts) > 0 {
						<-time.After(11 * time.Minute)
					}
				}
				if len(all) != 20 || admitted != 5 {
					t.Errorf("of %d drains, %d were admitted with other windows, want 5", len(all), admitted)
				}
			})
		})
	}
}

// TestDrainsOfOneMoment: drains that wait for the same window count though none of them is seen stored yet.
func TestDrainsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{})
		admitted := 0
		for node := range 20 {
			if h.Handle(t.Context(), inWindows(t, node, "22:00-05:00")).Allowed {
				admitted++
			}
		}
		if admitted != 5 {
			t.Errorf("%d drains were admitted, want 5", admitted)
		}
	})
}

// TestJustWritten: a drain that was written a moment ago counts now; that does not admit it to another night.
func TestJustWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		afterOneAnother(t, i, h, 5, func(int) []string { return []string{"22:00-05:00"} })
		request := inWindows(t, 5, "Mon 10:00-11:00")
		if got := h.Handle(t.Context(), request); !got.Allowed {
			t.Fatal(got.Result.Message)
		}
		d := stored(t, request)
		i.changed(nil, d, time.Now())
		if h.Handle(t.Context(), changes(t, d, inWindows(t, 5, "22:00-05:00"))).Allowed {
			t.Error("a sixth drain begins with five others")
		}
	})
}
