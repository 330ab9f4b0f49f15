package devicedrain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// maxStatus is the size of a status with realistic names, in bytes of JSON.
const maxStatus = 200 << 10

// bigWorld has pools of eight devices, a pod for each device, and budgets of which each wants
// nine of ten of its pods to be ready. Pods that are evicted are replaced on other devices.
func bigWorld(t testing.TB, pools, budgets int) *world {
	w := newWorld(t, 0, func(s *v1alpha1.DeviceDrainSpec) {
		s.EvictionsPerMinute, s.AtEnd = new(int32(6000)), v1alpha1.EndUncordon
	})
	w.perPool, w.limit.Pods = 8, 10000
	n := pools * w.perPool
	for i := range n {
		w.drain.Spec.Devices = append(w.drain.Spec.Devices, w.device(i))
		w.pod(fmt.Sprint("web-", i%budgets), nil, i)
	}
	for i := range budgets {
		ready := (n + budgets - 1 - i) / budgets
		w.budget(fmt.Sprint("web-", i), fmt.Sprint("web-", i), int32(ready-max(1, ready/10)))
	}
	w.replace = func(w *world, gone *corev1.Pod, _ *resourceapi.ResourceClaim) {
		w.pod(gone.Labels["app"], nil, n+w.serial)
	}
	return w
}

// TestBig drains 4,096 devices of 512 pools, whose pods 50 budgets protect, in one go and
// with 20 kills.
func TestBig(t *testing.T) {
	for _, kills := range []int{0, 20} {
		t.Run(fmt.Sprint(kills, " kills"), func(t *testing.T) {
			w := bigWorld(t, 512, 50)
			before := len(w.pods)
			other := drain.PoolRule(&v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "firmware-2", UID: "other"}}, drain.Pool{Driver: w.device(0).Driver, Name: w.device(0).Pool})
			w.rules = append(w.rules, other)
			kill := never
			if kills > 0 {
				r, left := rand.New(rand.NewPCG(4096, 1)), kills
				kill = func(string) bool {
					if left == 0 || r.IntN(40) > 0 {
						return false
					}
					left--
					return true
				}
				defer func() {
					if left > 0 {
						t.Errorf("%d kills are left", left)
					}
				}()
			}
			largest, most := 0, 0
			w.stored = func() {
				text, err := json.Marshal(w.drain.Status)
				if err != nil {
					t.Fatal(err)
				}
				largest, most = max(largest, len(text)), max(most, len(w.rules))
			}
			w.run(30*time.Minute, kill)
			w.expect("Drained=True Drained", "Blocked=False NotBlocked")
			if n := w.drain.Status.Counts; int(n.Evicted) != before || len(w.accepted) != before || n.Deleted != 0 {
				t.Errorf("%d pods, counts %+v, %d evicted", before, n, len(w.accepted))
			}
			if largest > maxStatus || most != 512+1 {
				t.Errorf("a status of %d bytes, at most %d allowed; %d rules, want 512", largest, maxStatus, most-1)
			}
			for i := 100; i < len(w.times); i++ {
				if w.times[i].Sub(w.times[i-100]) < time.Second {
					t.Fatalf("101 evictions within %s", w.times[i].Sub(w.times[i-100]))
				}
			}
			w.expect("Cordoned=False Uncordoned")
			if len(w.rules) != 1 || w.rules[0] != other {
				t.Errorf("%d rules are left, want that of another drain", len(w.rules))
			}
			t.Logf("drained after %s with %d decisions; the largest status has %d bytes", w.since(), w.decisions, largest)
		})
	}
}

// TestWholePools: one rule cordons a pool all of whose devices are drained, until the pool
// publishes another device, which no rule may select; then never again.
func TestWholePools(t *testing.T) {
	w := bigWorld(t, 40, 10)
	idle := func() {
		t.Helper()
		w.run(15*time.Second, never)
		w.expect("Cordoned=True Cordoned")
	}
	w.drain.Spec.Paused = true
	count := func(want int) {
		t.Helper()
		idle()
		if len(w.rules) != want {
			t.Errorf("%d rules, want %d", len(w.rules), want)
		}
		for _, rule := range w.rules {
			if s := rule.Spec.DeviceSelector; s.Device == nil && w.others[drain.Pool{Driver: *s.Driver, Name: *s.Pool}] {
				t.Errorf("%s cordons the other device of %s", rule.Name, *s.Pool)
			}
		}
	}
	count(40)
	pool := drain.Pool{Driver: w.device(0).Driver, Name: w.device(0).Pool}
	w.others[pool] = true
	count(39 + 8)
	w.others[pool] = false
	count(39 + 8)
	w.rules = w.rules[:20] // a user deletes the others
	count(39 + 8)
}

// TestTooMany: a drain that needs too many rules, or too much space, does not begin.
func TestTooMany(t *testing.T) {
	for name, tt := range map[string]struct {
		devices int
		change  func(i int, d *v1alpha1.DeviceName)
		whole   bool
		want    string
	}{
		"one rule each":      {devices: 1024, want: "Blocked=False NotBlocked"},
		"too many rules":     {devices: 1025, want: "Blocked=True TooManyDevices"},
		"one rule for all":   {devices: 4096, whole: true, want: "Blocked=False NotBlocked"},
		"names are too long": {devices: 4096, whole: true, want: "Blocked=True TooManyDevices", change: func(i int, d *v1alpha1.DeviceName) { d.Device = fmt.Sprintf("%055d", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.devices, nil)
			w.others[drain.Pool{Driver: "gpu.example.com", Name: "node"}] = !tt.whole
			for i := range w.drain.Spec.Devices {
				if tt.change != nil {
					tt.change(i, &w.drain.Spec.Devices[i])
				}
			}
			d := w.step(never)
			w.expect(tt.want)
			if blocked := tt.want != "Blocked=False NotBlocked"; blocked != (len(d.Create) == 0) || blocked != (len(w.drain.Status.Devices) == 0) {
				t.Errorf("%d rules, %d groups of devices", len(d.Create), len(w.drain.Status.Devices))
			}
		})
	}
}

// BenchmarkDecide measures a decision about drains of 256 and of 4,096 devices, all held.
func BenchmarkDecide(b *testing.B) {
	for _, pools := range []int{32, 512} {
		b.Run(fmt.Sprint(pools*8, " devices"), func(b *testing.B) {
			w := bigWorld(b, pools, 50)
			w.run(11*time.Second, never)
			in := w.input()
			for b.Loop() {
				drain.Decide(in)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pools*8), "ns/device")
		})
	}
}
