package devicereaction

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
)

// Metrics count what reactions find and do. Reactions are few: administrators write them.
type Metrics struct {
	devices, paused, proofs *prometheus.GaugeVec
	drains                  *prometheus.CounterVec
	known                   map[string]bool
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		devices: all.Gauges("dra_steward_reaction_devices",
			"Devices of DeviceReactions, by reaction and state: waiting (sick, without a drain of the reaction), draining, or drained.", "reaction", "state"),
		paused: all.Gauges("dra_steward_reaction_paused_timestamp_seconds",
			"When a DeviceReaction was paused, by reaction and reason (Brake or Guard); absent while it is not paused.", "reaction", "reason"),
		proofs: all.Gauges("dra_steward_reaction_proofs",
			"Drained devices of DeviceReactions by reaction and state of their proof: running, passed, failed or unprovable; absent for a reaction without spec.prove.", "reaction", "state"),
		drains: all.Counters("dra_steward_reaction_drain_writes_total",
			"DeviceDrains that reactions created, deleted, or paused and resumed (update), by verb.", "verb"),
		known: map[string]bool{},
	}
	return m, all.Err()
}

func (m *Metrics) did(verb string) {
	if m != nil {
		m.drains.WithLabelValues(verb).Inc()
	}
}

// state reports the status of a reaction.
func (m *Metrics) state(name string, status v1alpha1.DeviceReactionStatus) {
	if m == nil {
		return
	}
	m.known[name] = true
	for state, n := range map[string]int32{"waiting": status.Counts.Waiting, "draining": status.Counts.Draining, "drained": status.Counts.Drained} {
		m.devices.WithLabelValues(name, state).Set(float64(n))
	}
	m.proven(name, status)
	m.paused.DeletePartialMatch(prometheus.Labels{"reaction": name})
	if paused := meta.FindStatusCondition(status.Conditions, v1alpha1.ReactionPaused); paused != nil && paused.Status == "True" {
		m.paused.WithLabelValues(name, paused.Reason).Set(float64(paused.LastTransitionTime.Unix()))
	}
}

// proven counts the proofs of a reaction.
func (m *Metrics) proven(name string, status v1alpha1.DeviceReactionStatus) {
	if meta.FindStatusCondition(status.Conditions, v1alpha1.ReactionProven) == nil {
		m.proofs.DeletePartialMatch(prometheus.Labels{"reaction": name})
		return
	}
	counts := map[v1alpha1.ReactionProofState]int{}
	for i := range status.Devices {
		if d := &status.Devices[i]; d.Proof != nil && d.Drain != "" {
			counts[d.Proof.State]++
		}
	}
	for _, state := range []v1alpha1.ReactionProofState{v1alpha1.ProofRunning, v1alpha1.ProofPassed, v1alpha1.ProofFailed, v1alpha1.ProofUnprovable} {
		m.proofs.WithLabelValues(name, strings.ToLower(string(state))).Set(float64(counts[state]))
	}
}

// keep drops the series of reactions that are gone.
func (m *Metrics) keep(present map[string]bool) {
	if m == nil {
		return
	}
	for name := range m.known {
		if !present[name] {
			m.devices.DeletePartialMatch(prometheus.Labels{"reaction": name})
			m.paused.DeletePartialMatch(prometheus.Labels{"reaction": name})
			m.proofs.DeletePartialMatch(prometheus.Labels{"reaction": name})
			delete(m.known, name)
		}
	}
}
