package devicedrain

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
)

// Metrics count what drains do.
type Metrics struct {
	evictions, writes, fallbacks *prometheus.CounterVec
	drains, blocked              *prometheus.GaugeVec
	states                       map[string]string
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		evictions: all.Counters("dra_steward_drain_evictions_total",
			"Pods that drains asked the API server to evict, to request the eviction of (call request) or, at the deadline, to delete, by its answer: accepted, gone, budget, refused, no_answer.", "call", "result"),
		writes: all.Counters("dra_steward_drain_status_writes_total",
			"Writes of the status of DeviceDrains, by result.", "result"),
		fallbacks: all.Counters("dra_steward_drain_fallbacks_total",
			"Returns from EvictionRequests to the Eviction API, by reason: of one pod (Stalled, RequestFailed, RequestRefused), or of a whole drain (NotServed, Forbidden, NotReadable, NotAnswered).", "reason"),
		drains: all.Gauges("dra_steward_drains",
			"DeviceDrains by state: drained, failed, draining, or the reason that blocks evictions.", "state"),
		blocked: all.Gauges("dra_steward_drain_blocked_timestamp_seconds",
			"When a DeviceDrain became blocked, by drain and by the reason that blocks it; absent while it is not blocked.", "drain", "reason"),
		states: map[string]string{},
	}
	return m, all.Err()
}

// The values of the label call.
const (
	callEvict   = "evict"
	callDelete  = "delete"
	callRequest = "request"
)

func (m *Metrics) answered(call string, outcome drain.Outcome, refusal drain.Refusal) {
	if m == nil {
		return
	}
	result := "no_answer"
	switch {
	case outcome == drain.Accepted:
		result = "accepted"
	case outcome == drain.Gone:
		result = "gone"
	case refusal.Budget:
		result = "budget"
	case outcome == drain.Refused:
		result = "refused"
	}
	m.evictions.WithLabelValues(call, result).Inc()
}

func (m *Metrics) fellBack(reason string) {
	if m != nil {
		m.fallbacks.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) wrote(err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.writes.WithLabelValues(result).Inc()
}

// state counts a drain by what it does. The reasons are a closed set.
func (m *Metrics) state(name string, status v1alpha1.DeviceDrainStatus) {
	if m == nil {
		return
	}
	m.forget(name)
	state := condition.Find(status.Conditions, v1alpha1.DrainDraining).Reason
	switch blocked := condition.Find(status.Conditions, v1alpha1.DrainBlocked); {
	case condition.Find(status.Conditions, v1alpha1.DrainDrained).Status == "True":
		state = "drained"
	case condition.Find(status.Conditions, v1alpha1.DrainFailed).Status == "True":
		state = "failed"
	case blocked.Status == "True":
		state = blocked.Reason
		m.blocked.WithLabelValues(name, blocked.Reason).Set(float64(blocked.LastTransitionTime.Unix()))
	case state == "Evicting":
		state = "draining"
	}
	m.states[name] = state
	m.drains.WithLabelValues(state).Inc()
}

// forget takes a drain out of the count.
func (m *Metrics) forget(name string) {
	if m == nil {
		return
	}
	if state, known := m.states[name]; known {
		m.drains.WithLabelValues(state).Dec()
		m.blocked.DeletePartialMatch(prometheus.Labels{"drain": name})
		delete(m.states, name)
	}
}
