package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"

	blast "github.com/dra-steward/dra-steward/internal/guard"
)

var (
	impactKeys = keysOf("devices", "driverDevices", "claims", "pods", "namespaces", "everything", "namespaceNames", "budgets", "acknowledged", "acknowledge")
	budgetKeys = keysOf("namespace", "name", "pods", "allowed")
)

func impact(i *Impact) *ast.Term {
	if i == nil {
		return ast.NullTerm()
	}
	number := func(n int) *ast.Term { return whole(int64(n)) }
	budgets := make([]*ast.Term, 0, len(i.Budgets))
	for _, b := range i.Budgets {
		budgets = append(budgets, budgetKeys.object(text(b.Namespace), text(b.Name), number(b.Pods), number(b.Allowed)))
	}
	acknowledged := ast.NewObject()
	if i.Acknowledged != nil {
		for what, limit := range i.Acknowledged.Limits() {
			acknowledged.Insert(text(what), number(limit))
		}
	}
	return impactKeys.object(number(i.Devices), number(i.DriverDevices), number(i.Claims), number(i.Pods), number(i.Namespaces),
		truth(i.Everything), texts(i.NamespaceNames), ast.ArrayTerm(budgets...), ast.NewTerm(acknowledged), text(blast.CeilingOf(i.Counts).Annotate()))
}
