package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

const (
	// pace is the time between two operations.
	pace = 200 * time.Millisecond
	// maxLive is the number of pods above which pods are deleted instead of created.
	maxLive = 300
	// maxSeconds is the largest tolerationSeconds.
	maxSeconds = 45
	// lasting is how long most taints stand: longer than a leader needs when it is disturbed.
	lasting = 2 * time.Minute
	// sweepPeriod is how often claims of pods that are gone are deleted.
	sweepPeriod = 5 * time.Second
)

// A scene is what the test has written, in the order in which it did.
type scene struct {
	script
	// all are the pods; live are those not known to be gone.
	all, live []*pod
	published []*published
	rules     []*rule
	// past are the taints that do not stand any more.
	past []oracle.Standing
	// tainted is sent to when a rule that may evict pods was written, if the test waits.
	tainted chan struct{}
}

func newScene(w *world, seed uint64) *scene {
	return &scene{script: newScript(w, seed, 1), tainted: make(chan struct{}, 1)}
}

// publish makes the device class and the slices of two drivers.
func (s *scene) publish(t *testing.T) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, s.w.ready); err != nil {
		t.Fatal(err)
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "devices"}}
	if _, err := s.w.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodeNames() {
		for driver, devices := range map[string]int{"gpu.example.com": 8, "nic.example.com": 4} {
			p := &published{name: driver + "-" + node, driver: driver, node: node, taints: map[string][]*standing{}}
			for i := range devices {
				p.devices = append(p.devices, fmt.Sprint(driver[:3], "-", i))
			}
			s.published = append(s.published, p)
			if err := s.create(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortFunc(s.published, func(a, b *published) int { return strings.Compare(a.name, b.name) })
}

// run operates until ctx ends.
func (s *scene) run(ctx context.Context, t *testing.T) {
	s.play(ctx, t, pace, s.next, s.sweep, sweepPeriod)
}

// next chooses an operation by its weight.
func (s *scene) next() operation {
	if len(s.live) > maxLive {
		return operation{"pods deleted", 1, s.deletePod}
	}
	return s.choose([]operation{
		{"pods created", 48, s.createPod},
		{"bursts of pods", 1, s.createPods},
		{"pods deleted", 4, s.deletePod},
		{"pods replaced", 3, s.replacePod},
		{"claims released", 3, s.release},
		{"devices tainted", 9, s.taintDevice},
		{"devices untainted", 10, s.untaintDevice},
		{"slices published again", 1, s.publishAgain},
		{"rules created", 5, s.createRule},
		{"rules changed", 4, s.changeRule},
		{"rules deleted", 5, s.deleteRule},
	})
}

// A standing is a taint that stands.
type standing struct {
	oracle.Standing
	// brief ones are removed soon, perhaps before anybody observes them.
	brief bool
}

// removable reports whether a taint has stood long enough.
func (s *standing) removable() bool {
	stood := lasting
	if s.brief {
		stood = 2 * time.Second
	}
	return time.Since(s.Begin.Latest) > stood
}

// ended adds a standing to the past.
func (s *scene) ended(of *standing, end oracle.Moment) {
	of.End = end
	s.past = append(s.past, of.Standing)
}

// taint is a random one. Its time is in the past, or is left to the API server.
func (s *scene) taint() resourceapi.DeviceTaint {
	taint := resourceapi.DeviceTaint{Key: s.key(), Value: s.value(), Effect: resourceapi.DeviceTaintEffectNoExecute}
	if s.chance(25) {
		taint.Effect = pick(s, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone)
	}
	if s.chance(40) {
		taint.TimeAdded = s.past40()
	}
	return taint
}

func (s *scene) key() string {
	return pick(s, "example.com/", "hardware.example.com/") + pick(s, "hot", "slow")
}
func (s *scene) value() string { return pick(s, "", "yes", "no") }

// past40 is a time of the last 40 seconds.
func (s *scene) past40() *metav1.Time {
	return new(metav1.NewTime(time.Now().Add(-time.Duration(s.random.IntN(40)) * time.Second).Truncate(time.Second)))
}

// tolerations are up to three, of all shapes.
func (s *scene) tolerations() (all []resourceapi.DeviceToleration) {
	for range pick(s, 0, 0, 1, 1, 1, 2, 3) {
		t := resourceapi.DeviceToleration{Key: s.key(), Value: s.value()}
		switch s.random.IntN(10) {
		case 0, 1:
			t = resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists}
		case 2, 3, 4, 5:
			t.Operator, t.Value = resourceapi.DeviceTolerationOpExists, ""
		case 6, 7, 8:
			t.Operator = resourceapi.DeviceTolerationOpEqual
		}
		switch s.random.IntN(10) {
		case 0:
			t.Effect = resourceapi.DeviceTaintEffectNoSchedule
		case 1:
		default:
			t.Effect = resourceapi.DeviceTaintEffectNoExecute
		}
		t.TolerationSeconds = s.seconds()
		all = append(all, t)
	}
	return all
}

// seconds are none, few, many, zero or negative.
func (s *scene) seconds() *int64 {
	switch s.random.IntN(10) {
	case 0, 1, 2:
		return nil
	case 3:
		return new(int64(0))
	case 4:
		return new(-s.random.Int64N(100))
	case 5, 6, 7:
		return new(1 + s.random.Int64N(10))
	}
	return new(11 + s.random.Int64N(maxSeconds-10))
}

// history is what was written.
func (s *scene) history() *oracle.History {
	h := &oracle.History{Standings: slices.Clone(s.past)}
	for _, p := range s.published {
		for _, device := range p.devices {
			for _, of := range p.taints[device] {
				h.Standings = append(h.Standings, of.Standing)
			}
		}
	}
	for _, r := range s.rules {
		h.Standings = append(h.Standings, r.Standing)
	}
	return h
}

// describe is for messages.
func (p *pod) describe() string {
	var parts []string
	for _, u := range p.Uses {
		tolerations, _ := json.Marshal(u.Tolerations)
		parts = append(parts, fmt.Sprintf("%s from %s, tolerations %s", u.Device, u.Begin.Latest.UTC().Format("15:04:05.000"), tolerations))
	}
	return strings.Join(parts, "; ")
}
