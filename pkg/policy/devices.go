package policy

import (
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
	limited                      bool
}

func idOf(t *resourceapi.DeviceToleration) tolerationID {
	id := tolerationID{key: t.Key, value: t.Value, operator: string(t.Operator), effect: string(t.Effect)}
	if id.operator == "" {
		id.operator = string(resourceapi.DeviceTolerationOpEqual)
	}
	if t.TolerationSeconds != nil {
		id.seconds, id.limited = *t.TolerationSeconds, true
	}
	return id
}

// evicts tells whether pods stay because of the toleration.
func (t tolerationID) evicts() bool {
	return t.effect == "" || t.effect == string(resourceapi.DeviceTaintEffectNoExecute)
}

// tolerated is a distinct toleration.
type tolerated struct {
	tolerationID
	lastList int
	repeated bool
	known    scalar
}

// demand is what a request and an alternative have in common.
type demand struct {
	class       string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	adminAccess bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	// request is the place of the request, alternative that of the alternative plus one.
	request, alternative int
}

// place is where a toleration stands: in the list of a demand.
type place struct{ toleration, demand, index int }

// devices is what a claim or template asks for, flat.
type devices struct {
	summary
	world       validate.World
	spec        *resourceapi.ResourceClaimSpec
	base        string
	demands     []demand
	lists       []int // the demands with tolerations
	tolerations []tolerated
	places      []place
	byID        map[tolerationID]int
}

// maxSearched is how many distinct tolerations are searched one by one, which is faster
// than a map.
const maxSearched = 32

func devicesOf(object any, world validate.World, facts Facts) *devices {
	d := &devices{world: world}
	d.spec, d.base = specOf(object)
	if d.spec == nil {
		return d
	}
	all := d.spec.Devices.Requests
	d.demands = make([]demand, 0, len(all))
	for i := range all {
		if e := all[i].Exactly; e != nil {
			d.add(demand{e.DeviceClassName, e.AllocationMode, e.Count, e.AdminAccess != nil && *e.AdminAccess, e.Selectors, e.Tolerations, i, 0})
		}
		for j := range all[i].FirstAvailable {
			s := &all[i].FirstAvailable[j]
			d.add(demand{s.DeviceClassName, s.AllocationMode, s.Count, false, s.Selectors, s.Tolerations, i, j + 1})
		}
	}
	d.summarise(facts)
	return d
}

func (d *devices) add(one demand) {
	if one.count == 0 && one.mode != resourceapi.DeviceAllocationModeAll {
		one.count = 1
	}
	d.demands = append(d.demands, one)
	if len(one.tolerations) == 0 {
		return
	}
	at := len(d.demands) - 1
	d.lists = append(d.lists, at)
	for i := range one.tolerations {
		found := d.find(idOf(&one.tolerations[i]))
		t := &d.tolerations[found]
		t.repeated = t.repeated || t.lastList == at
		t.lastList = at
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
	d.tolerations = append(d.tolerations, tolerated{tolerationID: id, lastList: -1, known: scalar{kind: nothing}})
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

// class returns a class; nil if it is not known.
func (d *devices) class(name string) *resourceapi.DeviceClass {
	if d.world == nil {
		return nil
	}
	return d.world.Class(name)
}

// name is the name of the request, and of the alternative.
func (d *devices) name(i int) string {
	one := &d.demands[i]
	request := &d.spec.Devices.Requests[one.request]
	if one.alternative > 0 {
		return request.Name + "/" + request.FirstAvailable[one.alternative-1].Name
	}
	return request.Name
}

// path is where the demand stands.
func (d *devices) path(i int) string {
	one := &d.demands[i]
	request := &d.spec.Devices.Requests[one.request]
	at := item(d.base+".devices.requests", request.Name, one.request)
	if one.alternative > 0 {
		j := one.alternative - 1
		return item(at+".firstAvailable", request.FirstAvailable[j].Name, j)
	}
	return at + ".exactly"
}

// requestTerms are the requests as policies see them.
func (d *devices) requestTerms(v view) *ast.Term {
	return tableTerm(v, requestList, d, len(d.demands), selectorsKey, func(i int) *ast.Term { return selectors(d.demands[i].selectors) })
}

// listTerms are the lists of tolerations.
func (d *devices) listTerms() *ast.Term {
	terms := make([]*ast.Term, len(d.lists))
	for i := range terms {
		object := ast.NewObjectWithCapacity(len(listFields))
		for j := range listFields {
			object.Insert(listFields[j].key, listFields[j].get(d, i).term())
		}
		terms[i] = ast.NewTerm(object)
	}
	return ast.ArrayTerm(terms...)
}

// tolerationTerms are the distinct tolerations with their places.
func (d *devices) tolerationTerms(v view) *ast.Term {
	var paths [][]*ast.Term
	return tableTerm(v, tolerationList, d, len(d.tolerations), pathsKey, func(i int) *ast.Term {
		if paths == nil {
			paths = d.paths(v)
		}
		return ast.ArrayTerm(paths[i]...)
	})
}

// paths are the places of each toleration.
func (d *devices) paths(v view) [][]*ast.Term {
	counts := make([]int, len(d.tolerations))
	for _, p := range d.places {
		counts[p.toleration]++
	}
	room := make([]*ast.Term, 0, len(d.places))
	paths := make([][]*ast.Term, len(d.tolerations))
	for i, n := range counts {
		paths[i] = room[len(room) : len(room) : len(room)+n]
		room = room[:len(room)+n]
	}
	texts, terms := d.pathTexts(v), make([]ast.Term, len(d.places))
	for i, p := range d.places {
		if texts[i] != "" {
			terms[i].Value = ast.String(texts[i])
			paths[p.toleration] = append(paths[p.toleration], &terms[i])
		}
	}
	return paths
}

// pathTexts are the paths of the places, parts of one text; those that nobody has to see
// are empty.
func (d *devices) pathTexts(v view) []string {
	ends, texts := make([]int, len(d.places)), make([]string, len(d.places))
	var all strings.Builder
	demand, list := -1, ""
	for i, p := range d.places {
		if v.has(tolerationList, p.toleration) {
			if p.demand != demand {
				demand, list = p.demand, d.path(p.demand)+".tolerations["
				all.Grow((len(list) + 3) * (len(d.demands[demand].tolerations) - p.index))
			}
			all.WriteString(list)
			all.WriteString(itoa(p.index))
			all.WriteByte(']')
		}
		ends[i] = all.Len()
	}
	begin := 0
	for i, end := range ends {
		texts[i], begin = all.String()[begin:end], end
	}
	return texts
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
