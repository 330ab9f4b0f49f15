package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// derivedFields reports the values of the fields that are derived from selectors, and each
// that differs from what Rego derives.
const derivedFields = `
deny contains {"paths": [], "message": sprintf("constant selectors are %v", [request.constantSelector])} if {
	some request in input.claim.requests
}

deny contains {"paths": [], "message": sprintf("wrong: %v", [request])} if {
	some request in input.claim.requests
	constants := {selector | some selector in request.selectors; trim_space(selector) in {"true", "false"}}
	request.constantSelector != (count(constants) > 0)
}

deny contains {"paths": [], "message": sprintf("a class selects all is %v", [class.selectsAll])} if {
	some class in input.classes
}

deny contains {"paths": [], "message": sprintf("wrong: %v", [class])} if {
	some class in input.classes
	selective := {selector | some selector in class.selectors; trim_space(selector) != "true"}
	expected := [true | class.known; count(selective) == 0]
	class.selectsAll != (count(expected) > 0)
}
`

func TestFieldsDerivedFromSelectors(t *testing.T) {
	header, _, _ := strings.Cut(anyPolicy(rand.New(rand.NewPCG(1, 2)), 1), "helper if")
	set, err := Parse(t.Context(), Collection{Name: "any", Files: fstest.MapFS{"p.rego": {Data: []byte(header + derivedFields)}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(set, Settings{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	random, said := rand.New(rand.NewPCG(5, 6)), map[string]int{}
	for range 500 {
		decision := e.Evaluate(t.Context(), anyWrite(random))
		if err := decision.Err(); err != nil {
			t.Fatal(err)
		}
		for _, v := range decision.Violations {
			if strings.HasPrefix(v.Message, "wrong") {
				t.Fatal(v.Message)
			}
			said[v.Message]++
		}
	}
	for _, message := range []string{"constant selectors are true", "constant selectors are false", "a class selects all is true", "a class selects all is false"} {
		if said[message] < 50 {
			t.Errorf("%d times %q", said[message], message)
		}
	}
}
