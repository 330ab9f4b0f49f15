package deviceroll

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
)

// Metrics show how far rolls have come. Rolls are few: administrators write them.
type Metrics struct {
	nodes, held *prometheus.GaugeVec
	known       map[string]bool
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		nodes: all.Gauges("dra_steward_roll_nodes",
			"Nodes of DeviceRolls, by roll and state: waiting, in_work, failed, done, or skipped (left out or gone).", "roll", "state"),
		held: all.Gauges("dra_steward_roll_held_timestamp_seconds",
			"When a DeviceRoll was held, by roll and reason of the condition Held; absent while it is not held.", "roll", "reason"),
		known: map[string]bool{},
	}
	return m, all.Err()
}

// state reports the status of a roll.
func (m *Metrics) state(name string, status v1alpha1.DeviceRollStatus) {
	if m == nil {
		return
	}
	m.known[name] = true
	c := status.Counts
	for state, n := range map[string]int32{"waiting": c.Nodes - c.Done - c.Skipped - c.InWork - c.Failed, "in_work": c.InWork, "failed": c.Failed, "done": c.Done, "skipped": c.Skipped} {
		m.nodes.WithLabelValues(name, state).Set(float64(n))
	}
	m.held.DeletePartialMatch(prometheus.Labels{"roll": name})
	if held := meta.FindStatusCondition(status.Conditions, v1alpha1.RollHeld); held != nil && held.Status == "True" {
		m.held.WithLabelValues(name, held.Reason).Set(float64(held.LastTransitionTime.Unix()))
	}
}

// keep drops the series of rolls that are gone.
func (m *Metrics) keep(present map[string]bool) {
	if m == nil {
		return
	}
	for name := range m.known {
		if !present[name] {
			m.nodes.DeletePartialMatch(prometheus.Labels{"roll": name})
			m.held.DeletePartialMatch(prometheus.Labels{"roll": name})
			delete(m.known, name)
		}
	}
}
