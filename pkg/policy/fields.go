package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// A listField is a field of the items of a list of the input: its name and its value.
type listField struct {
	name string
	key  *ast.Term
	get  func(d *devices, item int) scalar
}

func fieldOf(name string, get func(*devices, int) scalar) listField {
	return listField{name, ast.StringTerm(name), get}
}

// tolerationFields, requestFields and listFields are the simple fields of
// input.tolerations, input.claim.requests and input.tolerationLists.
var (
	tolerationFields = []listField{
		fieldOf("key", func(d *devices, i int) scalar { return textOf(d.tolerations[i].key) }),
		fieldOf("operator", func(d *devices, i int) scalar { return textOf(d.tolerations[i].operator) }),
		fieldOf("value", func(d *devices, i int) scalar { return textOf(d.tolerations[i].value) }),
		fieldOf("effect", func(d *devices, i int) scalar { return textOf(d.tolerations[i].effect) }),
		fieldOf("seconds", func(d *devices, i int) scalar {
			if !d.tolerations[i].limited {
				return scalar{kind: nothing}
			}
			return numberOf(d.tolerations[i].seconds)
		}),
		fieldOf("wildcard", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].key == "") }),
		fieldOf("noExecute", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].evicts()) }),
		fieldOf("domainKey", func(d *devices, i int) scalar { return textOf(domainKey(d.tolerations[i].key)) }),
		fieldOf("known", func(d *devices, i int) scalar { return d.tolerations[i].known }),
		fieldOf("repeated", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].repeated) }),
	}
	requestFields = []listField{
		fieldOf("name", func(d *devices, i int) scalar { return textOf(d.name(i)) }),
		fieldOf("path", func(d *devices, i int) scalar { return textOf(d.path(i)) }),
		fieldOf("class", func(d *devices, i int) scalar { return textOf(d.demands[i].class) }),
		fieldOf("mode", func(d *devices, i int) scalar { return textOf(d.demands[i].mode) }),
		fieldOf("count", func(d *devices, i int) scalar { return numberOf(d.demands[i].count) }),
		fieldOf("adminAccess", func(d *devices, i int) scalar { return truthOf(d.demands[i].adminAccess) }),
		fieldOf("alternative", func(d *devices, i int) scalar { return numberOf(int64(d.demands[i].alternative)) }),
	}
	listFields = []listField{
		fieldOf("path", func(d *devices, i int) scalar { return textOf(d.path(d.lists[i]) + ".tolerations") }),
		fieldOf("length", func(d *devices, i int) scalar { return numberOf(int64(len(d.demands[d.lists[i]].tolerations))) }),
	}
	// classFields are those of input.classes, for the class of each request.
	classFields = []listField{
		fieldOf("known", func(d *devices, i int) scalar { return truthOf(d.class(d.demands[i].class) != nil) }),
	}
	pathsKey     = ast.StringTerm("paths")
	selectorsKey = ast.StringTerm("selectors")
)

// listTerm is a list of the input; value makes the field under key, which is not simple.
func listTerm(table []listField, d *devices, length int, key *ast.Term, value func(item int) *ast.Term) *ast.Term {
	terms := make([]*ast.Term, length)
	for i := range terms {
		object := ast.NewObjectWithCapacity(len(table) + 1)
		for j := range table {
			object.Insert(table[j].key, table[j].get(d, i).term())
		}
		if value != nil {
			object.Insert(key, value(i))
		}
		terms[i] = ast.NewTerm(object)
	}
	return ast.ArrayTerm(terms...)
}
