package policy

import (
	"context"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"
)

// A Probe is one policy with one write, to find out what the policy costs.
type Probe struct {
	subject *subject
	judge   *judge
	timeout time.Duration
}

// Probe returns the probe of a policy; ok is false where it does not apply to the write or
// is off.
func (e *Engine) Probe(code string, req Request) (_ Probe, ok bool) {
	if !e.Applies(req) {
		return Probe{}, false
	}
	in := e.scopes.of(req)
	if in.modes[code] == Off {
		return Probe{}, false
	}
	policies := e.groups[groupOf(req)].policies
	i := slices.IndexFunc(policies, func(one *judge) bool { return one.Code == code })
	if i < 0 {
		return Probe{}, false
	}
	return Probe{subjectOf(req, in), policies[i], e.timeout}, true
}

// Run does what an evaluation does for this policy alone: it looks whether the policy may
// have something to say and, if so, builds the input that it reads and asks it.
func (p Probe) Run(ctx context.Context) (asked bool, _ error) {
	if !p.judge.guards.may(p.subject) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	_, err := p.judge.one.put(ctx, p.subject.input(p.judge.one.fields))
	return true, err
}

// Steps counts the expressions that the policy evaluates.
func (p Probe) Steps(ctx context.Context) (int, error) {
	if !p.judge.guards.may(p.subject) {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	count := &steps{}
	_, err := p.judge.one.evaluate(ctx, p.subject.input(p.judge.one.fields), count)
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
