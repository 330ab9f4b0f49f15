package webhook

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Metrics count what the webhooks answer. No label carries a namespace, a name or
// a user, so their number is bounded by kinds and rules.
type Metrics struct {
	answers  *prometheus.CounterVec
	findings *prometheus.CounterVec
	exempted *prometheus.CounterVec
	defaults *prometheus.CounterVec
	policies *prometheus.CounterVec
	asked    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	passed   *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

const (
	verdictAllowed = "allowed"
	verdictDenied  = "denied"
	verdictErrored = "errored"
	verdictSkipped = "skipped"
)

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		answers: all.Counters("dra_steward_admission_answers_total",
			"Admission requests answered, by endpoint (mutate, validate, guard, pods), kind, operation and verdict (allowed, denied, errored, skipped).", "endpoint", "kind", "operation", "verdict"),
		findings: all.Counters("dra_steward_admission_findings_total",
			"Findings in admission requests, by the ID of the rule and severity (error, warning, audit).", "rule", "severity"),
		exempted: all.Counters("dra_steward_admission_exempted_total",
			"Findings in admission requests that an exemption or the author's identity admitted, by the ID of the rule.", "rule"),
		defaults: all.Counters("dra_steward_admission_defaults_total",
			"Defaults of admission requests, by ID and result (filled, or withheld in mode observe).", "default", "result"),
		policies: all.Counters("dra_steward_policy_results_total",
			"Results of policies, by code, mode and result (violation, stored: the stored object has it already, error, timeout, and of objects that policies cannot be evaluated for, too-large and unreadable).", "code", "mode", "result"),
		asked: all.Counters("dra_steward_policy_evaluations_total",
			"Policy evaluations of writes, by result (evaluated, cached, failed).", "result"),
		refused: all.Counters("dra_steward_admission_refused_total",
			"Requests refused because of a limit of the server, by endpoint and reason (busy, deadline, size, address: too many requests from an address, connections: too many connections).", "endpoint", "reason"),
		passed: all.Counters("dra_steward_admission_unchecked_total",
			"Requests of Kubernetes components and drivers, and deletions, that were admitted without all checks because of a limit of the server or an error, by endpoint and reason (busy, deadline, size, address, error, panic).", "endpoint", "reason"),
		seconds: metric.Add(all, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dra_steward_admission_seconds",
			Help:    "Time to answer an admission request, without HTTP and TLS, by endpoint.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 2, 14),
		}, []string{"endpoint"})),
	}
	m.begin()
	return m, all.Err()
}

// begin makes the counters of limits start at 0: Prometheus sees no increase in a counter that
// appears with its first event.
func (m *Metrics) begin() {
	for _, path := range []string{mutatePath, validatePath, guardPath, podsPath} {
		endpoint := strings.TrimPrefix(path, "/")
		for _, reason := range []string{"busy", "deadline", "size", "address"} {
			m.refused.WithLabelValues(endpoint, reason)
			m.passed.WithLabelValues(endpoint, reason)
		}
		for _, reason := range []string{"error", "panic"} {
			m.passed.WithLabelValues(endpoint, reason)
		}
	}
	m.refused.WithLabelValues("", "connections")
}

func (m *Metrics) observe(endpoint string, req admission.Request, verdict string, took time.Duration) {
	if m == nil {
		return
	}
	kind, operation := req.Kind.Kind, string(req.Operation)
	if verdict == verdictErrored || verdict == verdictSkipped {
		kind = "" // may be anything that a caller made up
	}
	if kind != "" && endsPod(req) { // known by its resource; a caller can name any kind
		if kind = "Pod"; evicts(req) {
			kind = "Eviction"
		}
	}
	if verdict == verdictErrored {
		operation = "" // likewise
	}
	m.answers.WithLabelValues(endpoint, kind, operation, verdict).Inc()
	m.seconds.WithLabelValues(endpoint).Observe(took.Seconds())
}

// refuse counts a request that a limit of the server refuses.
func (m *Metrics) refuse(endpoint, reason string) {
	if m != nil {
		m.refused.WithLabelValues(endpoint, reason).Inc()
	}
}

// unchecked is the answer to a request that is admitted although it was not checked, and
// counts it.
func (m *Metrics) unchecked(endpoint, reason string) admission.Response {
	m.pass(endpoint, reason)
	response := admission.Allowed("")
	response.AuditAnnotations = map[string]string{uncheckedKey: reason}
	return response
}

// pass counts a request that is admitted without all checks.
func (m *Metrics) pass(endpoint, reason string) {
	if m != nil {
		m.passed.WithLabelValues(endpoint, reason).Inc()
	}
}

func (m *Metrics) count(answer review.Answer) {
	if m == nil {
		return
	}
	for _, finding := range answer.Findings {
		m.findings.WithLabelValues(finding.Rule, finding.Severity.String()).Inc()
	}
	for _, finding := range answer.Audited {
		m.findings.WithLabelValues(finding.Rule, validate.Audit.String()).Inc()
	}
	for _, e := range answer.Exempted {
		m.exempted.WithLabelValues(e.Rule).Inc()
	}
	for result, changes := range map[string][]mutate.Change{"filled": answer.Changes, "withheld": answer.Withheld} {
		for _, change := range changes {
			m.defaults.WithLabelValues(change.Default, result).Inc()
		}
	}
	m.countPolicies(answer.Decision)
}

func (m *Metrics) countPolicies(d policy.Decision) {
	for _, v := range d.Violations {
		result := "violation"
		if v.Stored {
			result = "stored"
		}
		m.policies.WithLabelValues(v.Code, string(v.Mode), result).Inc()
	}
	for _, f := range d.Failures {
		result := "error"
		switch {
		case f.TimedOut:
			result = "timeout"
		case f.TooLarge:
			result = "too-large"
		case f.Unreadable:
			result = "unreadable"
		}
		m.policies.WithLabelValues(f.Code, string(f.Mode), result).Inc()
	}
	switch {
	case len(d.Failures) > 0:
		m.asked.WithLabelValues("failed").Inc()
	case d.Cached:
		m.asked.WithLabelValues("cached").Inc()
	case d.Evaluated:
		m.asked.WithLabelValues("evaluated").Inc()
	}
}
