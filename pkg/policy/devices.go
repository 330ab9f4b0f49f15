package policy

import (
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

var (
	requestKeys    = keysOf("name", "path", "class", "mode", "count", "adminAccess", "alternative", "selectors")
	tolerationKeys = keysOf("key", "operator", "value", "effect", "seconds", "wildcard", "noExecute", "known", "repeated", "paths")
	listKeys       = keysOf("path", "length")
	configKeys     = keysOf("driver", "apiVersion", "kind", "parameters", "driverKnown", "known", "problems", "paths")
	problemKeys    = keysOf("path", "message")
)

// tolerationID is what makes tolerations the same.
type tolerationID struct {
	key, value, operator, effect string
	seconds                      int64
	limited                      bool
}

func idOf(t resourceapi.DeviceToleration) tolerationID {
	id := tolerationID{key: t.Key, value: t.Value, operator: string(t.Operator), effect: string(t.Effect)}
	if id.operator == "" {
		id.operator = string(resourceapi.DeviceTolerationOpEqual)
	}
	if t.TolerationSeconds != nil {
		id.seconds, id.limited = *t.TolerationSeconds, true
	}
	return id
}

// tolerated is a distinct toleration.
type tolerated struct {
	tolerationID
	paths    []*ast.Term
	lastList int
	repeated bool
}

// devices is what a claim or template asks for, flat.
type devices struct {
	summary
	requests, lists []*ast.Term
	classNames      []string
	tolerations     []*tolerated
	byID            map[tolerationID]*tolerated
	facts           Facts
}

func devicesOf(req Request) *devices {
	d := &devices{byID: map[tolerationID]*tolerated{}, facts: req.Facts}
	spec, base := specOf(req.Object)
	if spec == nil {
		return d
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		at := item(base+".devices.requests", request.Name, i)
		if e := request.Exactly; e != nil {
			d.add(request.Name, at+".exactly", 0, demand{e.DeviceClassName, e.AllocationMode, e.Count, e.AdminAccess, e.Selectors, e.Tolerations})
		}
		for j := range request.FirstAvailable {
			s := &request.FirstAvailable[j]
			d.add(request.Name+"/"+s.Name, item(at+".firstAvailable", s.Name, j), j+1,
				demand{s.DeviceClassName, s.AllocationMode, s.Count, nil, s.Selectors, s.Tolerations})
		}
	}
	return d
}

// demand is what a request and an alternative have in common.
type demand struct {
	class       string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	adminAccess *bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
}

func (d *devices) add(name, path string, alternative int, from demand) {
	d.summary.add(alternative, from)
	count := from.count
	if count == 0 && from.mode != resourceapi.DeviceAllocationModeAll {
		count = 1
	}
	d.requests = append(d.requests, requestKeys.object(text(name), ast.StringTerm(path), text(from.class), text(from.mode), whole(count),
		truth(from.adminAccess != nil && *from.adminAccess), ast.InternedTerm(alternative), selectors(from.selectors)))
	d.classNames = append(d.classNames, from.class)
	if len(from.tolerations) == 0 {
		return
	}
	list := path + ".tolerations"
	d.lists = append(d.lists, listKeys.object(ast.StringTerm(list), ast.InternedTerm(len(from.tolerations))))
	for i, toleration := range from.tolerations {
		id := idOf(toleration)
		one := d.byID[id]
		if one == nil {
			one = &tolerated{tolerationID: id, lastList: -1}
			d.byID[id] = one
			d.tolerations = append(d.tolerations, one)
		}
		one.repeated = one.repeated || one.lastList == len(d.lists)
		one.lastList = len(d.lists)
		one.paths = append(one.paths, ast.StringTerm(list+"["+itoa(i)+"]"))
	}
}

func (d *devices) distinct() []*ast.Term {
	var terms []*ast.Term
	for _, t := range d.tolerations {
		seconds, known := ast.NullTerm(), ast.NullTerm()
		if t.limited {
			seconds = whole(t.seconds)
		}
		if d.facts != nil {
			if is, sure := d.facts.TaintKey(t.key); sure {
				known = truth(is)
			}
		}
		terms = append(terms, tolerationKeys.object(text(t.key), text(t.operator), text(t.value), text(t.effect), seconds, truth(t.key == ""),
			truth(t.effect == "" || t.effect == string(resourceapi.DeviceTaintEffectNoExecute)), known, truth(t.repeated), ast.ArrayTerm(t.paths...)))
	}
	return terms
}

// classes are those that the requests name.
func (d *devices) classes(req Request) *ast.Term {
	object := ast.NewObjectWithCapacity(len(d.classNames))
	for _, name := range d.classNames {
		if req.World == nil {
			break
		}
		if class := req.World.Class(name); class != nil {
			object.Insert(text(name), knownKeys.object(truth(true), textMap(class.Labels), selectors(class.Spec.Selectors), extended(class)))
		} else {
			object.Insert(text(name), knownKeys.object(truth(false), textMap(nil), ast.ArrayTerm(), text("")))
		}
	}
	return ast.NewTerm(object)
}

// opaqueConfig is one opaque configuration with its place.
type opaqueConfig struct {
	*resourceapi.OpaqueDeviceConfiguration
	path string
}

func opaqueConfigs(object any) (all []opaqueConfig) {
	if class, is := object.(*resourceapi.DeviceClass); is {
		for i := range class.Spec.Config {
			all = append(all, opaqueConfig{class.Spec.Config[i].Opaque, "spec.config[" + itoa(i) + "].opaque"})
		}
	}
	if spec, base := specOf(object); spec != nil {
		for i := range spec.Devices.Config {
			all = append(all, opaqueConfig{spec.Devices.Config[i].Opaque, base + ".devices.config[" + itoa(i) + "].opaque"})
		}
	}
	return all
}

// configs are the distinct opaque configurations.
func configs(req Request) (terms []*ast.Term) {
	type id struct{ driver, parameters string }
	var order []opaqueConfig
	paths := map[id][]string{}
	for _, config := range opaqueConfigs(req.Object) {
		if config.OpaqueDeviceConfiguration == nil {
			continue
		}
		key := id{config.Driver, string(config.Parameters.Raw)}
		if paths[key] == nil {
			order = append(order, config)
		}
		paths[key] = append(paths[key], config.path)
	}
	for _, config := range order {
		terms = append(terms, config.term(req.Parameters, paths[id{config.Driver, string(config.Parameters.Raw)}]))
	}
	return terms
}

func (c opaqueConfig) term(schemas validate.Parameters, paths []string) *ast.Term {
	var problems []*ast.Term
	driverKnown := schemas != nil && schemas.KnowsDriver(c.Driver)
	known := driverKnown
	if driverKnown {
		at := field.NewPath("parameters")
		unknown, fields, values := schemas.Check(at, c.Driver, c.Parameters.Raw)
		known = len(unknown) == 0
		for _, err := range append(fields, values...) {
			path := strings.TrimPrefix(strings.TrimPrefix(err.Field, "parameters"), ".")
			problems = append(problems, problemKeys.object(text(path), ast.StringTerm(err.ErrorBody())))
		}
	}
	parameters := parsed(c.Parameters.Raw)
	return configKeys.object(text(c.Driver), stringField(parameters, "apiVersion"), stringField(parameters, "kind"), parameters,
		truth(driverKnown), truth(known), ast.ArrayTerm(problems...), texts(paths))
}

func stringField(object *ast.Term, name string) *ast.Term {
	if fields, is := object.Value.(ast.Object); is {
		if value := fields.Get(ast.StringTerm(name)); value != nil {
			if _, is := value.Value.(ast.String); is {
				return value
			}
		}
	}
	return text("")
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
