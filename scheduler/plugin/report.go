package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const (
	// checkEvery is how often the plugin checks whether patches are read.
	checkEvery = time.Second
	// repeatEvery is how often it is said again that they are not.
	repeatEvery = 10 * time.Minute
)

// report tells people what the scheduler cannot tell by scheduling: that patches are off,
// and that another scheduler hands out devices, too.
type report struct {
	recorder  events.EventRecorderLogger
	regarding runtime.Object
	logger    klog.Logger
	patches   atomic.Int64
	foreign   *foreign

	mutex sync.Mutex
	twice time.Time // when it was said last that patches are materialized
}

func newReport(logger klog.Logger, recorder events.EventRecorderLogger, regarding runtime.Object, profiles []string) *report {
	if regarding == nil {
		regarding = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system", Namespace: "kube-system"}
	}
	return &report{logger: logger, recorder: recorder, regarding: regarding, foreign: newForeign(profiles)}
}

// run says when patches stop and start to count, until ctx ends.
func (r *report) run(ctx context.Context, p *patches) {
	logger := r.logger
	available := metrics.NewGauge(&metrics.GaugeOpts{Name: "dra_steward_scheduler_patches_available",
		Help: "1 while ResourceSlicePatches are read and applied, 0 while pods are scheduled without them.", StabilityLevel: metrics.ALPHA})
	number := metrics.NewGauge(&metrics.GaugeOpts{Name: "dra_steward_scheduler_patches",
		Help: "ResourceSlicePatches that are applied.", StabilityLevel: metrics.ALPHA})
	for _, metric := range []metrics.Registerable{available, number} {
		if err := legacyregistry.Register(metric); err != nil {
			logger.Error(err, "A metric is missing")
		}
	}
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	var state patchesState
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			condition := p.reader.Condition()
			number.Set(float64(r.patches.Load()))
			if condition.Available {
				available.Set(1)
			} else {
				available.Set(0)
			}
			switch say, message := state.next(condition, now); say {
			case sayOff:
				logger.Error(nil, message)
				// One reason for all would make them one event, with the first message.
				r.recorder.Eventf(r.regarding, nil, corev1.EventTypeWarning, "Patches"+condition.Reason, "Scheduling", "%s", message)
			case sayOn:
				logger.Info(message)
				r.recorder.Eventf(r.regarding, nil, corev1.EventTypeNormal, "PatchesOn", "Scheduling", "%s", message)
			}
		}
	}
}

// What is to be said.
const (
	sayNothing = iota
	sayOff
	sayOn
)

// patchesState is what has been said last.
type patchesState struct {
	reason string
	said   time.Time
}

// next decides what to say of a condition.
func (s *patchesState) next(condition tracker.Condition, now time.Time) (say int, message string) {
	repeated := condition.Reason == s.reason
	switch {
	case condition.Reason == tracker.ReasonWaiting, repeated && condition.Available, repeated && now.Sub(s.said) < repeatEvery:
		return sayNothing, ""
	case condition.Available:
		before := s.reason
		s.reason, s.said = condition.Reason, now
		if before == "" {
			return sayNothing, ""
		}
		return sayOn, "ResourceSlicePatches are applied again"
	default:
		s.reason, s.said = condition.Reason, now
		return sayOff, "Pods are scheduled without ResourceSlicePatches: " + condition.Message
	}
}

// tellForeign reports a pod that another scheduler has bound.
func (r *report) tellForeign(pod *corev1.Pod) {
	message := foreignText(pod, r.foreign.isPatched(pod.Spec.SchedulerName))
	r.logger.Error(nil, message)
	r.recorder.Eventf(r.regarding, pod, corev1.EventTypeWarning, "AnotherScheduler", "Scheduling", "%s", message)
}

// materialized tells of a slice that the webhook has written patched values into: that shows
// that patches are materialized, which is the other way to let them count.
func (r *report) materialized(slice *resourceapi.ResourceSlice) {
	if !r.isTwice(slice, time.Now()) {
		return
	}
	message := fmt.Sprintf("ResourceSlice %s has values of ResourceSlicePatches written into it. This scheduler uses the driver's values and applies patches itself: "+
		"switch one of the two off, the chart's patches.mode or the plugin %s", slice.Name, Name)
	r.logger.Error(nil, message)
	r.recorder.Eventf(r.regarding, slice, corev1.EventTypeWarning, "PatchesMaterialized", "Scheduling", "%s", message)
}

// isTwice reports, from time to time, whether a slice has patched values written into it.
func (r *report) isTwice(slice *resourceapi.ResourceSlice, now time.Time) bool {
	if slice.Annotations[record.Annotation] == "" {
		return false
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if now.Sub(r.twice) < repeatEvery {
		return false
	}
	// A record that cannot be read counts, too.
	if originals, err := record.OriginalsOf(slice); err == nil && originals.Count().InForce == 0 {
		return false
	}
	r.twice = now
	return true
}
