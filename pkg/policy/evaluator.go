package policy

import (
	"context"
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// An evaluator is a term that is evaluated again and again, as package rego does it with a
// prepared query, without what that does for each call: metrics, a transaction and a
// goroutine that waits.
type evaluator struct {
	compiler *ast.Compiler
	query    ast.QueryCompiler
	body     ast.Body
	result   ast.Var
	// store is empty: all that policies read is in the input and in rules.
	store       storage.Store
	transaction storage.Transaction
}

func newEvaluator(compiler *ast.Compiler, term *ast.Term) (evaluator, error) {
	const result = ast.Var("result")
	e := evaluator{compiler: compiler, query: compiler.QueryCompiler(), store: inmem.New(), result: result}
	var err error
	if e.body, err = e.query.Compile(ast.NewBody(ast.Equality.Expr(ast.NewTerm(result), term))); err != nil {
		return e, err
	}
	for variable, original := range e.query.RewrittenVars() {
		if original == result {
			e.result = variable
		}
	}
	e.transaction, err = e.store.NewTransaction(context.Background())
	return e, err
}

// evaluate returns the value of the term. An error in a function is one of the whole.
func (e *evaluator) evaluate(ctx context.Context, input ast.Value, tracers ...topdown.QueryTracer) (result ast.Value, err error) {
	cancel := topdown.NewCancel()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	query := topdown.NewQuery(e.body).WithQueryCompiler(e.query).WithCompiler(e.compiler).
		WithStore(e.store).WithTransaction(e.transaction).WithCancel(cancel).
		WithStrictBuiltinErrors(true).WithInput(ast.NewTerm(input))
	for _, tracer := range tracers {
		query = query.WithQueryTracer(tracer)
	}
	err = query.Iter(ctx, func(found topdown.QueryResult) error {
		if term := found[e.result]; term != nil {
			result = term.Value
		}
		return nil
	})
	if err == nil && result == nil {
		err = errors.New("the query has no result")
	}
	return result, err
}
