package policy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// An Engine evaluates a Set as a site wants it. It does not change; several goroutines
// may use it. The decisions that it keeps are its own, so none outlives a change of
// policies or settings.
type Engine struct {
	set      *Set
	scopes   scopes
	groups   map[groupKey]*group
	timeout  time.Duration
	limits   Limits
	disabled bool
	// boundsOnly evaluates no policy.
	boundsOnly bool
	// cache holds known decisions; nil keeps none.
	cache *decisions
}

// NewEngine makes an engine. It refuses settings that the policies do not allow, all of
// them in one error.
func NewEngine(set *Set, settings Settings) (*Engine, error) {
	all, err := newScopes(set, settings)
	if err != nil {
		return nil, err
	}
	e := &Engine{set: set, scopes: all, timeout: settings.Timeout, limits: settings.Limits.withDefaults(), disabled: settings.Disabled}
	if e.timeout <= 0 {
		e.timeout = defaultTimeout
	}
	if bytes := cmp.Or(settings.CacheBytes, defaultCacheBytes); bytes > 0 {
		e.cache = newDecisions(bytes)
	}
	e.groups, err = newGroups(set, &e.scopes, settings.Only)
	return e, err
}

// BoundsOnly returns an engine that checks Settings.Limits as e does, which costs little, and
// evaluates no policies. It replaces no rules.
func (e *Engine) BoundsOnly() *Engine {
	if e == nil {
		return nil
	}
	bounds := *e
	bounds.boundsOnly, bounds.cache = true, nil
	return &bounds
}

// Set returns the policies.
func (e *Engine) Set() *Set { return e.set }

// Mode returns the mode of a policy in a namespace, as far as names decide.
func (e *Engine) Mode(code, namespace string) Mode {
	if e.disabled {
		return Off
	}
	return e.scopes.named(namespace).modes[code]
}

// Parameters returns the parameters of a policy in a namespace, as far as names decide.
// Nothing may change them.
func (e *Engine) Parameters(code, namespace string) map[string]any {
	return e.scopes.named(namespace).values[code]
}

// Applies reports whether a policy applies to the write. It does not need Old.
func (e *Engine) Applies(req Request) bool {
	return !e.disabled && e.groups[groupOf(req)] != nil
}

// Evaluate returns what the policies say about a write. It ends when ctx ends, and at the
// latest after Settings.Timeout. Policies that need a part of the input that the write
// does not have are not evaluated.
func (e *Engine) Evaluate(ctx context.Context, req Request) Decision {
	if e.disabled {
		return Decision{}
	}
	group := e.groups[groupOf(req)]
	if group == nil {
		return Decision{}
	}
	in := e.scopes.of(req)
	var key digest
	keep := e.cache != nil && group.pure
	if keep {
		key, keep = keyOf(req, group)
	}
	if keep {
		if decision, found := e.cache.get(key); found {
			return decision
		}
	}
	// What exceeds the limits is never kept, so they are checked after the cache.
	var raw []byte
	if group.all.any(fieldNamed("raw")) {
		raw = req.Raw
	}
	if over := e.limits.exceeded(req.Object, raw); over != nil {
		return group.failed(req, in, Failure{Path: over.path, TooLarge: true, Err: over})
	}
	if e.boundsOnly {
		return Decision{}
	}
	decision := e.decide(ctx, group, req, in)
	if keep && len(decision.Failures) == 0 {
		e.cache.add(key, decision)
	}
	return decision
}

// decide evaluates.
func (e *Engine) decide(ctx context.Context, group *group, req Request, in scope) Decision {
	ctx, cancel := e.within(ctx)
	defer cancel()
	decision := group.evaluate(ctx, subjectOf(req, in))
	if len(decision.Failures) > 0 && !mayDeny(req) {
		for i, failure := range decision.Failures {
			decision.Failures[i].Mode = weaker(failure.Mode, Warn)
		}
	}
	e.ratchet(ctx, &decision, req, in)
	decision.Messages = groupMessages(decision.Violations)
	return decision
}

// answerTime is kept of the time that a caller waits, for an answer that names what has not been evaluated.
const answerTime = 20 * time.Millisecond

// within returns a context for an evaluation, which ends before its caller stops waiting.
func (e *Engine) within(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithTimeout(ctx, e.timeout)
	deadline, is := ctx.Deadline()
	if !is {
		return within, cancel
	}
	within, end := context.WithDeadline(within, deadline.Add(-answerTime))
	return within, func() { end(); cancel() }
}

// failed is the decision about a write for which no policy of the group was evaluated.
func (g *group) failed(req Request, in scope, failure Failure) Decision {
	failure.Mode = strongest(g.policies, in)
	if !mayDeny(req) {
		failure.Mode = weaker(failure.Mode, Warn)
	}
	if failure.Mode == Off {
		return Decision{}
	}
	return Decision{Evaluated: true, Failures: []Failure{failure}}
}

// evaluate evaluates the policies of the group that may report something: all together, and
// one by one if that fails, so that a broken policy does not prevent the others.
func (g *group) evaluate(ctx context.Context, s *subject) Decision {
	d := Decision{Evaluated: true}
	selected, query := g.selectFor(s)
	if len(selected) == 0 {
		return d
	}
	input := s.input(query.fields)
	if len(s.unreadable) > 0 {
		for i := range s.unreadable {
			s.unreadable[i].Mode = strongest(selected, s.in)
		}
		return Decision{Evaluated: true, Failures: s.unreadable}
	}
	results, err := query.run(ctx, input)
	if err == nil {
		for i, policy := range query.policies {
			d.add(ctx, policy, s.in, results[i], nil)
		}
	} else if !timedOut(ctx, err) {
		for _, one := range selected {
			results, err := one.query.run(ctx, input)
			if err != nil {
				d.add(ctx, one.Metadata, s.in, nil, err)
				continue
			}
			d.add(ctx, one.Metadata, s.in, results[0], nil)
		}
	}
	if ctx.Err() != nil || timedOut(ctx, err) {
		return Decision{Evaluated: true, Failures: []Failure{{Mode: strongest(selected, s.in), TimedOut: true, Err: errTimeout}}}
	}
	return d
}

var errTimeout = errors.New("too expensive to check: the policies did not finish in time")

// timedOut reports whether an evaluation ended because its time was over.
func timedOut(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || topdown.IsCancel(err))
}

// selectFor returns the policies that may report something, with the query for them.
func (g *group) selectFor(s *subject) ([]*preparedPolicy, *query) {
	selected := make([]*preparedPolicy, 0, len(g.policies))
	which := make([]byte, (len(g.policies)+7)/8)
	for i := range g.policies {
		one := g.policies[i]
		if s.in.modes[one.Code] != Off && one.prefilter.mayReport(s) {
			selected = append(selected, one)
			which[i/8] |= 1 << (i % 8)
		}
	}
	switch len(selected) {
	case 0:
		return nil, nil
	case 1:
		return selected, selected[0].query
	case len(g.policies):
		return selected, g.all
	}
	if query := g.some.of(selected, string(which)); query != nil {
		return selected, query
	}
	return g.policies, g.all
}

// ratchet weakens denials of what the stored object has already.
func (e *Engine) ratchet(ctx context.Context, d *Decision, req Request, in scope) {
	denied := func(v Violation) bool { return v.Mode == Deny }
	// An impact is that of the write; the stored object has none.
	if req.Impact != nil || absent(req.Old) || !slices.ContainsFunc(d.Violations, denied) {
		return
	}
	stored := req
	stored.Object, stored.Old, stored.Raw = req.Old, nil, nil
	group := e.groups[groupOf(stored)]
	if group == nil || group.all.any(fieldNamed("raw")) || e.limits.exceeded(stored.Object, nil) != nil {
		return // the stored object cannot be evaluated
	}
	before := newPlaces(group.evaluate(ctx, subjectOf(stored, in)).Violations)
	for i := range d.Violations {
		if v := &d.Violations[i]; denied(*v) && before.have(v) {
			v.Mode, v.Stored = Warn, true
		}
	}
}

// add appends the violations that a policy reports.
func (d *Decision) add(ctx context.Context, policy Metadata, in scope, reported ast.Value, err error) {
	mode := in.modes[policy.Code]
	if mode == Off {
		return
	}
	var violations []Violation
	if err == nil {
		violations, err = decode(ctx, policy, mode, reported)
	}
	if err != nil {
		d.Failures = append(d.Failures, Failure{Code: policy.Code, Mode: mode, TimedOut: timedOut(ctx, err), Err: err})
		return
	}
	d.Violations = append(d.Violations, violations...)
}

// InsteadOf returns the code of the policy that takes over from a rule of pkg/validate
// for a write. A policy that is off replaces no rule.
func (e *Engine) InsteadOf(rule string, req Request) (code string, found bool) {
	if e.disabled || e.boundsOnly {
		return "", false
	}
	in := e.scopes.of(req)
	for _, policy := range e.set.policies {
		if in.modes[policy.Code] != Off && slices.Contains(policy.Replaces, rule) && slices.Contains(policy.Kinds, req.Kind) {
			return policy.Code, true
		}
	}
	return "", false
}

// Digest identifies what a policy reports about a write: its text and that of the modules that
// policies import, and its mode and parameters in the cluster and in every namespace.
func (e *Engine) Digest(code string) string {
	own, _ := e.set.Policy(code)
	others := map[string]bool{}
	for _, policy := range e.set.policies {
		others[policy.File] = policy.Code != own.Code
	}
	hash := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(e.set.modules)) {
		if !others[file] {
			fmt.Fprintf(hash, "%q\n", e.set.texts[file])
		}
	}
	decided := map[string]any{"": e.scopes.cluster.decided(code)}
	for name, scope := range e.scopes.namespaces {
		decided[name] = scope.decided(code)
	}
	for i, override := range e.scopes.overrides {
		if override.Selector != nil {
			decided[fmt.Sprint(i, override.Selector)] = []any{override.Modes[code], override.Parameters[code]}
		}
	}
	_ = json.NewEncoder(hash).Encode([]any{e.disabled, decided}) // it was JSON before
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

func (s scope) decided(code string) any { return []any{s.modes[code], s.values[code]} }
