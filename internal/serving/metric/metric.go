// Package metric makes the metrics of Prometheus and registers them.
package metric

import "github.com/prometheus/client_golang/prometheus"

// A Registrar registers each metric that it makes, until one cannot be registered.
type Registrar struct {
	to  prometheus.Registerer
	err error
}

// For makes a registrar of metrics.
func For(registerer prometheus.Registerer) *Registrar { return &Registrar{to: registerer} }

// Err says why a metric was not registered, as when its name is taken.
func (r *Registrar) Err() error { return r.err }

// Counter makes a counter.
func (r *Registrar) Counter(name, help string) prometheus.Counter {
	return Add(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// Counters makes a counter for each value of the labels.
func (r *Registrar) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return Add(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Gauge makes a gauge.
func (r *Registrar) Gauge(name, help string) prometheus.Gauge {
	return Add(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// Gauges makes a gauge for each value of the labels.
func (r *Registrar) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return Add(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// GaugeFunc makes a gauge whose value is that of a function.
func (r *Registrar) GaugeFunc(name, help string, value func() float64) {
	Add(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Add registers a metric.
func Add[C prometheus.Collector](r *Registrar, c C) C {
	if r.err == nil {
		r.err = r.to.Register(c)
	}
	return c
}
