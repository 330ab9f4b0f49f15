package policy

import (
	"context"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A Benchmark is one policy and one write, to measure what the policy costs.
type Benchmark struct {
	subject *subject
	policy  *preparedPolicy
	timeout time.Duration
}

// Benchmark returns the benchmark of a policy; ok is false if the policy does not apply to
// the write or is off.
func (e *Engine) Benchmark(code string, req Request) (_ Benchmark, ok bool) {
	if !e.Applies(req) {
		return Benchmark{}, false
	}
	in := e.scopes.of(req)
	if in.modes[code] == Off {
		return Benchmark{}, false
	}
	policies := e.groups[groupOf(req)].policies
	i := slices.IndexFunc(policies, func(one *preparedPolicy) bool { return one.Code == code })
	if i < 0 {
		return Benchmark{}, false
	}
	return Benchmark{subjectOf(req, in), policies[i], e.timeout}, true
}

// Run does the work of an evaluation for this policy alone. evaluated is false if the policy
// cannot report anything about the write, so that it is not evaluated.
func (b Benchmark) Run(ctx context.Context) (evaluated bool, _ error) {
	if !b.policy.prefilter.mayReport(b.subject) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	_, err := b.policy.query.run(ctx, b.subject.input(b.policy.query.fields))
	return true, err
}

// Steps counts the expressions that the policy evaluates.
func (b Benchmark) Steps(ctx context.Context) (int, error) {
	if !b.policy.prefilter.mayReport(b.subject) {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	count := &steps{}
	_, err := b.policy.query.run(ctx, b.subject.input(b.policy.query.fields), rego.EvalQueryTracer(count))
	return count.evaluated, err
}

// steps counts what the evaluator does.
type steps struct{ evaluated int }

func (*steps) Enabled() bool { return true }

func (s *steps) TraceEvent(event topdown.Event) {
	if event.Op == topdown.EvalOp {
		s.evaluated++
	}
}

func (*steps) Config() topdown.TraceConfig { return topdown.TraceConfig{} }
