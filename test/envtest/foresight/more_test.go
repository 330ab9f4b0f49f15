package foresight_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Kinds of changes of the worlds of [newMore].
const (
	changeClass   = "class"
	drainSiblings = "drain siblings"
)

// TestMoreWorlds predicts changes of classes, which evict no pods, changes of worlds whose pods have
// admin access, and drains of a partition with its siblings.
func TestMoreWorlds(t *testing.T) {
	first, count := number(t, seedVariable, 1), uint64(6)
	switch {
	case os.Getenv(longVariable) != "" && minor() == newest:
		count = 60
	case os.Getenv(longVariable) != "":
		count = 12
	case os.Getenv(seedVariable) != "":
		count = 1
	}
	total := each(t, first, number(t, worldsVariable, count), newMore, func(w *world, total *score) {
		w.predictAndMake(total)
		if w.change.kind == changeClass {
			w.restart(total)
		}
	})
	total.judge(t, 0)
}

// newMore makes a world from a seed.
func newMore(seed uint64) *plan {
	p := &plan{name: fmt.Sprintf("m%d", seed), random: rand.New(rand.NewPCG(seed, 37))}
	p.place()
	kinds := []string{plain, parts, extended}
	kind := kinds[p.random.IntN(len(kinds))]
	switch seed % 3 {
	case 0:
		p.driver("d0."+p.name+".example.com", kind)
		p.changeClass(kind)
	case 1:
		first := without134(plain, parts, shared)
		p.driver("d0."+p.name+".example.com", first[p.random.IntN(len(first))])
		p.driver("d1."+p.name+".example.com", kind)
		p.adminAccess()
		p.plan()
	case 2:
		p.driver("d0."+p.name+".example.com", parts)
		p.drainSiblings()
	}
	return p
}

// changeClass narrows the class, or lets it select all devices of the driver at last.
func (p *plan) changeClass(kind string) {
	narrow := fmt.Sprintf(`device.driver == %q && device.attributes[%[1]q].model == "a"`, p.drivers[0])
	if kind == parts {
		narrow = fmt.Sprintf(`device.driver == %q && !device.attributes[%[1]q].size.startsWith("quar")`, p.drivers[0])
	}
	changed := p.classes[0].DeepCopy()
	of := changed
	if p.random.IntN(2) == 0 {
		of = p.classes[0]
	}
	of.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: narrow}}}
	p.change = change{kind: changeClass, driver: p.drivers[0], class: changed}
}

// adminAccess adds a set whose pods monitor devices that other pods have.
func (p *plan) adminAccess() {
	p.admin = true
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: p.classes[0].Name, AdminAccess: ptr.To(true), AllocationMode: resourceapi.DeviceAllocationModeAll}
	if p.random.IntN(2) == 0 || minor() == "1.35" { // kube-scheduler 1.35.4 panics on All with partitions: kubernetes#138882
		r.AllocationMode, r.Count = resourceapi.DeviceAllocationModeExactCount, 1+p.random.Int64N(2)
	}
	if p.random.IntN(3) == 0 {
		// Without an effect, kube-scheduler tolerates NoExecute taints, and kube-controller-manager does not:
		// the pod is placed and evicted again and again.
		for _, effect := range []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute} {
			r.Tolerations = append(r.Tolerations, resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: effect})
		}
	}
	name := "admin"
	set := p.set(name, 2+p.random.IntN(3))
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: r}}
	p.templates = append(p.templates, template)
	pod := &set.Spec.Template.Spec
	pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
	pod.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
	p.sets = append(p.sets, set)
}

// drainSiblings drains a partition and those that share counters with it, as a drain with withPartitions.
func (p *plan) drainSiblings() {
	with := slices.DeleteFunc(slices.Clone(p.slices), func(slice *resourceapi.ResourceSlice) bool { return len(slice.Spec.Devices) == 0 })
	slice := with[p.random.IntN(len(with))]
	one := usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[p.random.IntN(len(slice.Spec.Devices))].Name}
	p.change = change{kind: drainSiblings, driver: one.Driver, pool: one.Pool, devices: []string{one.Device}}
	for _, id := range siblings.Of(slices.Values(p.slices), slices.Values([]usage.DeviceID{one})) {
		p.change.devices = append(p.change.devices, id.Device)
	}
}

// restart deletes pods that would not land again after the change of the class, or else any, and compares
// where they land.
func (w *world) restart(total *score) {
	seen := w.read()
	var leaving []placement.Leaving
	for _, pod := range seen.Pods {
		if pod.Spec.NodeName != "" && (w.flagged[pod.Name] || len(w.flagged) == 0) && len(leaving) < 2 {
			leaving = append(leaving, placement.Leaving{Pod: pod})
		}
	}
	answer, err := seen.Predict(w.Context(), placement.Change{After: seen, Leaving: leaving})
	w.must(err)
	guess := w.guess(seen, answer)
	for _, l := range leaving {
		if err := w.client.CoreV1().Pods(w.name).Delete(w.Context(), l.Pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			w.must(err)
		}
	}
	w.quiet()
	w.compare(total, seen, answer, guess)
	for _, m := range answer.Moves {
		if w.flagged[m.Pod] && len(answer.Waiting) == 0 && m.Verdict == placement.Lands && !m.Contested {
			w.Errorf("%s: pod %s would not land again after the change of the class, and lands when it is deleted", w.name, m.Pod)
		}
	}
}

// flag remembers the pods that would not land again if they were created again.
func (w *world) flag(seen placement.Cluster) {
	change := w.planned(seen)
	change.Restarted = true
	answer, err := seen.Predict(w.Context(), change)
	w.must(err)
	w.flagged = map[string]bool{}
	for _, m := range answer.Moves {
		if m.IfRestarted {
			w.flagged[m.Pod] = true
		}
	}
	w.Logf("%s: %s; %d of %d pods would not land again", w.name, strings.TrimSpace(w.change.String()), len(w.flagged), len(seen.Pods))
}
