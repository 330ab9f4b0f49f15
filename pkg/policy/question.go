package policy

import (
	"context"
	"fmt"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A question asks some policies at once what they object to.
type question struct {
	policies []Metadata
	evaluator
	// fields are those of the input that the policies read.
	fields
}

// ask makes a question of policies that read no more than reads.
func (s *Set) ask(reads fields, policies ...Metadata) (*question, error) {
	var rules []*ast.Term
	for _, policy := range policies {
		rules = append(rules, ast.NewTerm(ast.MustParseRef("data."+policy.Package+".deny")))
	}
	one, err := newEvaluator(s.compiler, ast.ArrayTerm(rules...))
	return &question{policies, one, reads}, err
}

// askAll makes a question of several that are there for one policy each.
func (s *Set) askAll(judges []*judge) (*question, error) {
	var reads fields
	var policies []Metadata
	for _, one := range judges {
		reads |= one.one.fields
		policies = append(policies, one.Metadata)
	}
	return s.ask(reads, policies...)
}

// put returns what each policy of a question objects to.
func (q *question) put(ctx context.Context, input ast.Value) ([]ast.Value, error) {
	result, err := q.evaluate(ctx, input)
	if err != nil {
		return nil, err
	}
	list, is := result.(*ast.Array)
	if !is || list.Len() != len(q.policies) {
		return nil, fmt.Errorf("the query has no list with the results of %d policies", len(q.policies))
	}
	said := make([]ast.Value, list.Len())
	for i := range said {
		said[i] = list.Elem(i).Value
	}
	return said, nil
}

// maxQuestions is how many questions for parts of its policies a group keeps. Writes
// differ little in what policies have to look at; for one that is like none of the others
// all policies are asked.
const maxQuestions = 256

// questions are those for parts of the policies of a group.
type questions struct {
	set   *Set
	mutex sync.RWMutex
	known map[string]*question
}

// of returns the question for some judges; nil if there are too many already.
func (q *questions) of(judges []*judge, which string) *question {
	q.mutex.RLock()
	one := q.known[which]
	full := len(q.known) >= maxQuestions
	q.mutex.RUnlock()
	if one != nil || full {
		return one
	}
	one, err := q.set.askAll(judges)
	if err != nil {
		return nil
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.known[which] = one
	return one
}
