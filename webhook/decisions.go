package webhook

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// DecisionSettings say which answers are logged. The zero value logs none.
type DecisionSettings struct {
	// Denied and Warned are the parts of the denied requests, and of those that passed
	// with warnings or with findings for the audit log only, that are logged: 0 (none) to 1 (all). Which ones follows from the
	// UID of the request, so that every replica and both endpoints choose the same.
	Denied, Warned float64
	// PerSecond is the most lines per second; 0 is no limit. A client that tries again
	// and again fills no disk.
	PerSecond float64
}

// validate returns an error that names the setting that is out of range.
func (s DecisionSettings) validate() error {
	for name, part := range map[string]float64{"denied": s.Denied, "warned": s.Warned} {
		if !(part >= 0 && part <= 1) {
			return fmt.Errorf("the fraction of %s requests to log is %v: must be 0 to 1", name, part)
		}
	}
	if !(s.PerSecond >= 0) || math.IsInf(s.PerSecond, 0) {
		return fmt.Errorf("decisions to log per second: %v: must be 0 (no limit) or more", s.PerSecond)
	}
	return nil
}

// Decisions logs what was refused, and what was warned about: a line per request with
// its UID, the object, the author and the rules. A nil Decisions logs nothing.
type Decisions struct {
	settings DecisionSettings
	limiter  *rate.Limiter
	log      logr.Logger
	lines    *prometheus.CounterVec
}

// NewDecisions returns a log of decisions whose counter is registered.
func NewDecisions(settings DecisionSettings, log logr.Logger, registerer prometheus.Registerer) (*Decisions, error) {
	d := &Decisions{settings: settings, log: log, limiter: rate.NewLimiter(rate.Inf, 0),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_decision_log_total",
			Help: "Decision log entries, by result: logged, sampled (omitted by the sampling rate) or limited (omitted by the limit per second).",
		}, []string{"result"})}
	if err := settings.validate(); err != nil {
		return nil, err
	}
	if settings.PerSecond > 0 {
		d.limiter = rate.NewLimiter(rate.Limit(settings.PerSecond), int(math.Ceil(settings.PerSecond)))
	}
	return d, registerer.Register(d.lines)
}

// record logs an answer with findings, within the sample and the rate limit.
func (d *Decisions) record(endpoint string, req admission.Request, answer review.Answer) {
	if d == nil || len(answer.Findings)+len(answer.Audited) == 0 {
		return
	}
	verdict, part := "warned", d.settings.Warned
	switch {
	case answer.Denied():
		verdict, part = verdictDenied, d.settings.Denied
	case len(answer.Findings) == 0:
		verdict = "audited"
	}
	switch {
	case part == 0: // switched off
		return
	case !sampled(req.UID, part):
		d.lines.WithLabelValues("sampled").Inc()
		return
	case !d.limiter.Allow():
		d.lines.WithLabelValues("limited").Inc()
		return
	}
	d.lines.WithLabelValues("logged").Inc()
	rules, findings := described(answer)
	d.log.Info("decision", "verdict", verdict, "endpoint", endpoint, "uid", req.UID, "operation", req.Operation,
		"group", req.Kind.Group, "kind", req.Kind.Kind, "namespace", req.Namespace, "name", answer.Name,
		"user", req.UserInfo.Username, "dryRun", req.DryRun != nil && *req.DryRun, "rules", rules, "findings", findings)
}

// described are the rules of the findings, each once, and the findings as people see them.
func described(answer review.Answer) (rules, findings []string) {
	seen := map[string]bool{}
	all := slices.Concat(answer.Findings, answer.Audited)
	for _, finding := range all {
		if !seen[finding.Rule] {
			seen[finding.Rule] = true
			rules = append(rules, finding.Rule)
		}
	}
	return rules, firstLines(all)
}

// sampled reports whether a request belongs to the part that is logged.
func sampled(uid types.UID, part float64) bool {
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // never fails
	return float64(hash.Sum32())/(math.MaxUint32+1) < part
}
