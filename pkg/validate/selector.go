package validate

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// selectorWalk walks single selectors with the path of each.
type selectorWalk iter.Seq2[*field.Path, *resourceapi.DeviceSelector]

// selectorRules are the rules for a single selector, of a request or of a class.
var selectorRules = Table[selectorWalk]{
	{
		ID: "selector-form",
		Doc: `A selector is a CEL expression.

There is no other form of selector yet; one without cel selects nothing.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceSelector.CEL",
		Check:  selectorForm,
	},
	{
		ID: "selector-expression",
		Doc: `The expression of a selector compiles to a bool, within 10240 bytes and a bound of cost.

The scheduler evaluates it for device after device, so its worst case, estimated from
the largest device that may exist, must stay below 1,000,000. allowMultipleAllocations
exists with the feature gate DRAConsumableCapacity, lists with DRAListTypeAttributes.
An expression of an unchanged class was accepted before; since 1.37 it is not looked
at again. What compiles is the compiler of 1.37 in the environment of the minor.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check:  selectorExpression,
	},
}

func selectorForm(selectors selectorWalk, _ Conditions) (errs field.ErrorList) {
	for at, selector := range selectors {
		if selector.CEL == nil {
			errs = append(errs, field.Required(at.Child("cel"), "write the condition as a CEL expression"))
		}
	}
	return errs
}

func selectorExpression(selectors selectorWalk, c Conditions) (errs field.ErrorList) {
	if c.Expressions == nil {
		c.Expressions = &Expressions{}
	}
	for at, selector := range selectors {
		if selector.CEL != nil {
			found, _ := expressionErrors(at.Child("cel", "expression"), selector.CEL.Expression, false, c)
			errs = append(errs, found...)
		}
	}
	return errs
}

// judgedSelectors walks the selectors of a list that an API server looks at.
func judgedSelectors(list *field.Path, selectors []resourceapi.DeviceSelector, c Conditions) selectorWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceSelector) bool) {
		selectors := judged(selectors, resourceapi.DeviceSelectorsMaxSize, c)
		for i := range selectors {
			if !yield(list.Index(i), &selectors[i]) {
				return
			}
		}
	}
}

func (s claimSpec) judgedSelectors(c Conditions) selectorWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceSelector) bool) {
		for at, demand := range s.judgedDemands(handwritten, c) {
			if len(demand.selectors) == 0 {
				continue
			}
			for at, selector := range judgedSelectors(at.Child("selectors"), demand.selectors, c) {
				if !yield(at, selector) {
					return
				}
			}
		}
	}
}
