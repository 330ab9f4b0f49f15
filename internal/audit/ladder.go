package audit

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A Ladder checks stored objects as the webhook does on several steps of the ladder. Several
// goroutines may use it.
type Ladder struct {
	auditor *Auditor
	steps   []rung
}

type rung struct {
	mode     v1alpha1.Mode
	reviewer review.Reviewer
}

// NewLadder returns one with a step for each mode. Impacts, which may be nil, count what
// stored taint rules hit.
func NewLadder(o Options, modes []v1alpha1.Mode, impacts review.Impacts) (*Ladder, error) {
	l := &Ladder{auditor: &Auditor{now: o.Now}}
	evaluations := &validate.Evaluations{}
	for _, mode := range modes {
		c := o.Configuration
		c.Mode = mode
		r, err := o.reviewer(c)
		if err != nil {
			return nil, err
		}
		r.Evaluations = evaluations
		r.SelectorTime = evaluationTime
		if impacts != nil && o.Policies != nil {
			settings, err := review.GuardSettings(c)
			if err != nil {
				return nil, err
			}
			if r.GuardPolicies, err = policy.NewEngine(o.Policies, settings); err != nil {
				return nil, err
			}
			r.Impacts = impacts
		}
		l.steps = append(l.steps, rung{mode, r})
	}
	return l, nil
}

// An Outcome is the answer to an object on one step, if its author wrote it now. The
// codes of policies and IDs of rules and defaults are in the order of their names.
type Outcome struct{ Refused, Warned, Defaulted []string }

// Check returns the outcome on each step, and the object's kind and name.
func (l *Ladder) Check(object Object) (name string, outcomes []Outcome, _ error) {
	h, err := headOf(object)
	if err != nil {
		return "", nil, err
	}
	meta := h.Metadata
	name = object.Kind.Kind + " " + fullName(meta.Namespace, meta.Name)
	request := review.Request{Kind: object.Kind, Object: object.JSON, Decoded: new(runtime.Object), Namespace: meta.Namespace, Now: l.auditor.timeOf(object)}
	for _, step := range l.steps {
		outcome, err := step.check(request, h.allocated(object.Kind.Kind))
		if err != nil {
			return name, nil, fmt.Errorf("%s: %w", name, err)
		}
		outcomes = append(outcomes, outcome)
	}
	return name, outcomes, nil
}

func (s rung) check(req review.Request, allocated bool) (Outcome, error) {
	answers := []review.Answer{}
	for _, check := range s.endpoints() {
		answer, err := check(req)
		if err != nil {
			return Outcome{}, err
		}
		answers = append(answers, answer)
	}
	if allocated {
		req.Subresource = "status"
		answer, err := s.reviewer.Validate(req)
		if err != nil {
			return Outcome{}, err
		}
		answers = append(answers, answer)
	}
	refused, warned, defaulted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, answer := range answers {
		for _, f := range answer.Findings {
			switch f.Severity {
			case validate.Error:
				refused[f.Rule] = true
			case validate.Warning:
				warned[f.Rule] = true
			}
		}
	}
	for _, change := range answers[0].Changes {
		defaulted[change.Default] = true
	}
	return Outcome{slices.Sorted(maps.Keys(refused)), slices.Sorted(maps.Keys(warned)), slices.Sorted(maps.Keys(defaulted))}, nil
}

// endpoints returns the endpoints that check a write: first the one that fills in defaults and
// checks the result.
func (s rung) endpoints() []func(review.Request) (review.Answer, error) {
	if s.reviewer.Impacts == nil {
		return []func(review.Request) (review.Answer, error){s.reviewer.Review}
	}
	return []func(review.Request) (review.Answer, error){s.reviewer.Review, s.reviewer.Guard}
}

// Weigh returns, for each step, the enforcement of a problem that a policy or rule of that
// code finds in a new object: deny, warn, audit or off.
func (l *Ladder) Weigh(code string) (modes []policy.Mode) {
	for _, step := range l.steps {
		switch {
		case ruleid.IsPolicy(code) && step.reviewer.Policies != nil:
			modes = append(modes, step.reviewer.Policies.Mode(code, ""))
		default:
			modes = append(modes, modeOf(step.reviewer.Severity(code)))
		}
	}
	return modes
}

// Fills says on which steps defaults are filled in.
func (l *Ladder) Fills() (fills []bool) {
	for _, step := range l.steps {
		fills = append(fills, step.mode != v1alpha1.ModeObserve)
	}
	return fills
}

// modeOf is a severity in the words of policies.
func modeOf(s validate.Severity) policy.Mode {
	return map[validate.Severity]policy.Mode{validate.Error: policy.Deny, validate.Warning: policy.Warn, validate.Audit: policy.Audit, validate.Off: policy.Off}[s]
}
