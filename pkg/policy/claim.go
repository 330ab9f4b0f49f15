package policy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// tolerationID is what makes tolerations the same.
type tolerationID struct {
	key, value, operator, effect string
	seconds                      int64
	limited, adminAccess         bool
}

func idOf(t *resourceapi.DeviceToleration, adminAccess bool) tolerationID {
	id := tolerationID{key: t.Key, value: t.Value, operator: string(t.Operator), effect: string(t.Effect), adminAccess: adminAccess}
	if id.operator == "" {
		id.operator = string(resourceapi.DeviceTolerationOpEqual)
	}
	if t.TolerationSeconds != nil {
		id.seconds, id.limited = *t.TolerationSeconds, true
	}
	return id
}

// evicts reports whether the toleration is about eviction: its effect is NoExecute, or any.
func (t tolerationID) evicts() bool {
	return t.effect == "" || t.effect == string(resourceapi.DeviceTaintEffectNoExecute)
}

// ends reports whether the toleration ends: seconds are ignored with another effect than
// NoExecute, and with an empty one.
func (t tolerationID) ends() bool {
	return t.limited && t.effect == string(resourceapi.DeviceTaintEffectNoExecute)
}

// distinctToleration is a distinct toleration.
type distinctToleration struct {
	tolerationID
	places   int
	lastList int
	repeated bool
	known    scalar
}

// deviceRequest has the fields that a request and an alternative have in common.
type deviceRequest struct {
	class       string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	adminAccess bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	// request is the place of the request, alternative that of the alternative plus one.
	request, alternative int
}

// place is the place of a toleration: its index in the list of a request.
type place struct{ toleration, request, index int }

// devices is what a claim or template asks for, flat.
type devices struct {
	world       validate.ClusterView
	spec        *resourceapi.ResourceClaimSpec
	base        string
	requests    []deviceRequest
	lists       []int // the requests with tolerations
	tolerations []distinctToleration
	places      []place
	byID        map[tolerationID]int
}

// maxSearched is how many distinct tolerations are searched one by one, which is faster
// than a map.
const maxSearched = 32

func devicesOf(object any, clusterView validate.ClusterView, data ClusterData) *devices {
	d := &devices{world: clusterView}
	d.spec, d.base = specOf(object)
	if d.spec == nil {
		return d
	}
	all := d.spec.Devices.Requests
	d.requests = make([]deviceRequest, 0, len(all))
	for i := range all {
		if e := all[i].Exactly; e != nil {
			d.add(deviceRequest{e.DeviceClassName, e.AllocationMode, e.Count, e.AdminAccess != nil && *e.AdminAccess, e.Selectors, e.Tolerations, i, 0})
		}
		for j := range all[i].FirstAvailable {
			s := &all[i].FirstAvailable[j]
			d.add(deviceRequest{s.DeviceClassName, s.AllocationMode, s.Count, false, s.Selectors, s.Tolerations, i, j + 1})
		}
	}
	for i := range d.tolerations {
		if t := &d.tolerations[i]; data != nil {
			if known, sure := data.TaintKey(t.key); sure {
				t.known = truthOf(known)
			}
		}
	}
	return d
}

func (d *devices) add(one deviceRequest) {
	if one.count == 0 && one.mode != resourceapi.DeviceAllocationModeAll {
		one.count = 1
	}
	d.requests = append(d.requests, one)
	if len(one.tolerations) == 0 {
		return
	}
	at := len(d.requests) - 1
	d.lists = append(d.lists, at)
	for i := range one.tolerations {
		found := d.find(idOf(&one.tolerations[i], one.adminAccess))
		t := &d.tolerations[found]
		t.repeated = t.repeated || t.lastList == at
		t.lastList = at
		t.places++
		d.places = append(d.places, place{found, at, i})
	}
}

// find returns the place of a toleration among the distinct ones.
func (d *devices) find(id tolerationID) int {
	if d.byID == nil {
		for i := range d.tolerations {
			if d.tolerations[i].tolerationID == id {
				return i
			}
		}
	} else if i, found := d.byID[id]; found {
		return i
	}
	d.tolerations = append(d.tolerations, distinctToleration{tolerationID: id, lastList: -1, known: scalar{kind: nothing}})
	switch last := len(d.tolerations) - 1; {
	case d.byID != nil:
		d.byID[id] = last
	case last == maxSearched:
		d.byID = make(map[tolerationID]int, 2*maxSearched)
		for i := range d.tolerations {
			d.byID[d.tolerations[i].tolerationID] = i
		}
	}
	return len(d.tolerations) - 1
}

// domainKey stands for all keys of the domain of a key; empty for a key without a domain.
func domainKey(key string) string {
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return ""
	}
	return domain + "/*"
}

// class returns a class; nil if it is not known.
func (d *devices) class(name string) *resourceapi.DeviceClass {
	if d.world == nil {
		return nil
	}
	return d.world.Class(name)
}

// expressionOf is the expression of a selector without the space around it.
func expressionOf(s resourceapi.DeviceSelector) string {
	if s.CEL == nil {
		return ""
	}
	return strings.TrimSpace(s.CEL.Expression)
}

// constant reports whether a selector does not depend on the device.
func constant(s resourceapi.DeviceSelector) bool {
	expression := expressionOf(s)
	return expression == "true" || expression == "false"
}

// unselective reports whether a class selects every device; false if there is no class.
func unselective(class *resourceapi.DeviceClass) bool {
	return class != nil && !slices.ContainsFunc(class.Spec.Selectors, func(s resourceapi.DeviceSelector) bool { return expressionOf(s) != "true" })
}

// name is the name of the request, and of the alternative.
func (d *devices) name(i int) string {
	one := &d.requests[i]
	request := &d.spec.Devices.Requests[one.request]
	if one.alternative > 0 {
		return request.Name + "/" + request.FirstAvailable[one.alternative-1].Name
	}
	return request.Name
}

// path is the path of a request.
func (d *devices) path(i int) string {
	one := &d.requests[i]
	request := &d.spec.Devices.Requests[one.request]
	at := item(d.base+".devices.requests", request.Name, one.request)
	if one.alternative > 0 {
		j := one.alternative - 1
		return item(at+".firstAvailable", request.FirstAvailable[j].Name, j)
	}
	return at + ".exactly"
}

// requestTerms are the requests as policies see them.
func (d *devices) requestTerms() *ast.Term {
	return listTerm(requestFields, d, len(d.requests), selectorsKey, func(i int) *ast.Term { return selectors(d.requests[i].selectors) })
}

// listTerms are the lists of tolerations.
func (d *devices) listTerms() *ast.Term {
	return listTerm(listFields, d, len(d.lists), nil, nil)
}

// tolerationTerms are the distinct tolerations with their places.
func (d *devices) tolerationTerms() *ast.Term {
	paths := d.paths()
	return listTerm(tolerationFields, d, len(d.tolerations), pathsKey, func(i int) *ast.Term { return ast.ArrayTerm(paths[i]...) })
}

// paths are the paths of each distinct toleration.
func (d *devices) paths() [][]*ast.Term {
	paths := make([][]*ast.Term, len(d.tolerations))
	for i := range paths {
		paths[i] = make([]*ast.Term, 0, d.tolerations[i].places)
	}
	terms := make([]ast.Term, len(d.places))
	request, list := -1, ""
	for i, p := range d.places {
		if p.request != request {
			request, list = p.request, d.path(p.request)+".tolerations["
		}
		terms[i].Value = ast.String(list + itoa(p.index) + "]")
		paths[p.toleration] = append(paths[p.toleration], &terms[i])
	}
	return paths
}

// item is the place of an item of a list, by its name if it has one, as the rules write
// it.
func item(list, name string, index int) string {
	switch {
	case name == "":
		return list + "[" + itoa(index) + "]"
	case strings.Trim(name, "0123456789") == "":
		return list + "[name=" + name + "]"
	default:
		return list + "[" + name + "]"
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

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
		fieldOf("ends", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].ends()) }),
		fieldOf("wildcard", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].key == "") }),
		fieldOf("noExecute", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].evicts()) }),
		fieldOf("domainKey", func(d *devices, i int) scalar { return textOf(domainKey(d.tolerations[i].key)) }),
		fieldOf("known", func(d *devices, i int) scalar { return d.tolerations[i].known }),
		fieldOf("adminAccess", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].adminAccess) }),
		fieldOf("repeated", func(d *devices, i int) scalar { return truthOf(d.tolerations[i].repeated) }),
	}
	requestFields = []listField{
		fieldOf("name", func(d *devices, i int) scalar { return textOf(d.name(i)) }),
		fieldOf("path", func(d *devices, i int) scalar { return textOf(d.path(i)) }),
		fieldOf("class", func(d *devices, i int) scalar { return textOf(d.requests[i].class) }),
		fieldOf("mode", func(d *devices, i int) scalar { return textOf(d.requests[i].mode) }),
		fieldOf("count", func(d *devices, i int) scalar { return numberOf(d.requests[i].count) }),
		fieldOf("adminAccess", func(d *devices, i int) scalar { return truthOf(d.requests[i].adminAccess) }),
		fieldOf("alternative", func(d *devices, i int) scalar { return numberOf(int64(d.requests[i].alternative)) }),
		fieldOf("constantSelector", func(d *devices, i int) scalar {
			return truthOf(slices.ContainsFunc(d.requests[i].selectors, constant))
		}),
	}
	listFields = []listField{
		fieldOf("path", func(d *devices, i int) scalar { return textOf(d.path(d.lists[i]) + ".tolerations") }),
		fieldOf("length", func(d *devices, i int) scalar { return numberOf(int64(len(d.requests[d.lists[i]].tolerations))) }),
	}
	// classFields are those of input.classes, for the class of each request.
	classFields = []listField{
		fieldOf("known", func(d *devices, i int) scalar { return truthOf(d.class(d.requests[i].class) != nil) }),
		fieldOf("selectsAll", func(d *devices, i int) scalar { return truthOf(unselective(d.class(d.requests[i].class))) }),
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

// A scalar is a simple value of the input. The input is described by tables of them, so
// that a prefilter can read a value without building the input.
type scalar struct {
	kind   scalarKind
	truth  bool
	number int64
	text   string
}

type scalarKind uint8

const (
	undefined scalarKind = iota // there is no such value
	uncertain                   // there may be any value
	nothing                     // null
	boolean
	number
	letters
)

func textOf[T ~string](s T) scalar { return scalar{kind: letters, text: string(s)} }

func truthOf(b bool) scalar { return scalar{kind: boolean, truth: b} }

func numberOf(n int64) scalar { return scalar{kind: number, number: n} }

// scalarOf returns a value of Rego as a scalar; nil is undefined.
func scalarOf(value ast.Value) scalar {
	switch v := value.(type) {
	case nil:
		return scalar{}
	case ast.String:
		return textOf(v)
	case ast.Boolean:
		return truthOf(bool(v))
	case ast.Null:
		return scalar{kind: nothing}
	case ast.Number:
		if n, is := v.Int64(); is && strconv.FormatInt(n, 10) == string(v) {
			return numberOf(n)
		}
	}
	return scalar{kind: uncertain}
}

// term is the scalar as a policy sees it; nil if there is none.
func (s scalar) term() *ast.Term {
	switch s.kind {
	case nothing:
		return ast.NullTerm()
	case boolean:
		return ast.InternedTerm(s.truth)
	case number:
		if s.number == int64(int(s.number)) {
			return ast.InternedTerm(int(s.number))
		}
		return ast.NumberTerm(json.Number(strconv.FormatInt(s.number, 10)))
	case letters:
		return ast.InternedTerm(s.text)
	case undefined, uncertain:
	}
	return nil
}

// A verdict is whether an expression holds, as far as that is known.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// not is the verdict on a negated expression.
func (v verdict) not() verdict { return yes - v }

// truthy returns whether an expression that is only a value holds.
func (s scalar) truthy() verdict {
	switch s.kind {
	case undefined:
		return no
	case uncertain:
		return maybe
	case nothing, boolean, number, letters:
	}
	return verdictOf(s.kind != boolean || s.truth)
}

// compare returns whether "a <operator> b" holds, in the names of Rego's functions.
func compare(operator string, a, b scalar) verdict {
	switch {
	case a.kind == undefined || b.kind == undefined:
		return no
	case a.kind == uncertain || b.kind == uncertain:
		return maybe
	}
	equal := a == b
	switch operator {
	case "eq", "equal":
		return verdictOf(equal)
	case "neq":
		return verdictOf(!equal)
	}
	if a.kind != b.kind || a.kind == boolean {
		return maybe // Rego orders these types too
	}
	order := cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text))
	switch operator {
	case "gt":
		return verdictOf(order > 0)
	case "gte":
		return verdictOf(order >= 0)
	case "lt":
		return verdictOf(order < 0)
	case "lte":
		return verdictOf(order <= 0)
	}
	return maybe
}
