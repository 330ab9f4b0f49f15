package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/plural"
	"github.com/dra-steward/dra-steward/internal/rulebook"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// droppedList matches the path of a list in an attribute.
var droppedList = regexp.MustCompile(`^(spec\.devices\[.*\]\.attributes)\.(.+)\.(ints|bools|strings|versions)$`)

// attributeValue is the rule that an attribute has exactly one value.
const attributeValue = "attribute-value"

// droppedLists puts what follows from one cause into one finding: an API server that drops
// the lists of attributes refuses the attributes, which have no value left.
func (j *judgement) droppedLists() {
	var first *Diagnostic
	refused := map[string]Diagnostic{}
	for _, r := range j.reports {
		if r.Rule == attributeValue {
			refused[r.Path] = r
		}
	}
	consequences := map[Diagnostic]bool{}
	attributes := 0
	for i, dropped := range j.reports {
		match := droppedList.FindStringSubmatch(dropped.Path)
		if dropped.Rule != rulebook.FieldDropped || match == nil {
			continue
		}
		consequence, ok := refused[match[1]+"["+match[2]+"]"]
		if !ok {
			continue
		}
		consequences[dropped], consequences[consequence] = true, true
		attributes++
		if first == nil {
			first = &j.reports[i]
		}
	}
	if first == nil {
		return
	}
	cause, _, _ := strings.Cut(first.Message, ": ")
	one := *first
	one.Rule, one.Severity = attributeValue, validate.Error
	one.Message = fmt.Sprintf("the list is %s, and an attribute without a value is refused", cause)
	if attributes > 1 {
		one.Message += "; the same holds for " + plural.Of(attributes-1, "other attribute")
	}
	j.reports = append(slices.DeleteFunc(j.reports, func(r Diagnostic) bool { return consequences[r] }), one)
}
