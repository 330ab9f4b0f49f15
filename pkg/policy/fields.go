package policy

import (
	"math/bits"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A field of an item of a list of the input, or of has: its name and its value.
type listField struct {
	name string
	key  *ast.Term
	get  func(d *devices, item int) scalar
}

func fieldOf(name string, get func(*devices, int) scalar) listField {
	return listField{name, ast.StringTerm(name), get}
}

// tolerationFields, requestFields and listFields are those of input.tolerations,
// input.claim.requests and input.tolerationLists that are simple; hasFields are those of
// input.has.
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
	hasFields = []listField{
		fieldOf("wildcard", func(d *devices, _ int) scalar { return truthOf(d.wildcard) }),
		fieldOf("endless", func(d *devices, _ int) scalar { return truthOf(d.endless) }),
		fieldOf("longest", func(d *devices, _ int) scalar { return numberOf(d.longest) }),
		fieldOf("ineffective", func(d *devices, _ int) scalar { return truthOf(d.ineffective) }),
		fieldOf("unknownKey", func(d *devices, _ int) scalar { return truthOf(d.unknownKey) }),
		fieldOf("longestList", func(d *devices, _ int) scalar { return numberOf(int64(d.longestList)) }),
		fieldOf("adminAccess", func(d *devices, _ int) scalar { return truthOf(d.adminAccess) }),
		fieldOf("all", func(d *devices, _ int) scalar { return truthOf(d.all) }),
		fieldOf("alternatives", func(d *devices, _ int) scalar { return truthOf(d.alternatives) }),
		fieldOf("constantSelector", func(d *devices, _ int) scalar { return truthOf(d.constantSelector) }),
		fieldOf("openClass", func(d *devices, _ int) scalar { return truthOf(d.openClass) }),
	}
	// classFields are those of input.classes, for the class of each request.
	classFields = []listField{
		fieldOf("known", func(d *devices, i int) scalar { return truthOf(d.class(d.demands[i].class) != nil) }),
	}
	hasKeysKey   = ast.StringTerm("keys")
	pathsKey     = ast.StringTerm("paths")
	selectorsKey = ast.StringTerm("selectors")
)

// tableTerm is the part of a list of the input that is used; value makes what stands under
// key and is not simple.
func tableTerm(v view, list int, d *devices, length int, key *ast.Term, value func(item int) *ast.Term) *ast.Term {
	table, used := *listTables[list], v.uses[list].fields
	terms := make([]*ast.Term, 0, length)
	for i := range length {
		if !v.has(list, i) {
			continue
		}
		object := ast.NewObjectWithCapacity(bits.OnesCount32(used & (2<<len(table) - 1)))
		for j := range table {
			if used&(1<<j) != 0 {
				object.Insert(table[j].key, table[j].get(d, i).term())
			}
		}
		if used&(1<<len(table)) != 0 {
			object.Insert(key, value(i))
		}
		terms = append(terms, ast.NewTerm(object))
	}
	return ast.ArrayTerm(terms...)
}
