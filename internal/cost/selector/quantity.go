package selector

import (
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// quantityValue is a quantity in an expression.
type quantityValue = apiservercel.Quantity

// quantityWork is the work of a comparison or a sum: two numbers are written with the same
// exponent first.
func quantityWork(q quantityValue) int {
	if q.Quantity == nil {
		return 1
	}
	if _, small := q.AsInt64(); small {
		return 1
	}
	number := q.AsDec()
	scale := int(number.Scale())
	return 1 + number.UnscaledBig().BitLen() + 4*max(scale, -scale)
}
