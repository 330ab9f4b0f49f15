package walk

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Places are the paths of the items of a list: by the name, and of an item with the
// name of an earlier one by the index, so that every item has a path of its own.
type Places struct {
	List   *field.Path
	Length int
	Name   func(i int) string
	first  map[string]int // by name; nil until it is needed, and for short lists
}

// shortList is the length up to which names are compared one by one, which is cheaper than a
// map.
const shortList = 32

func requestPlaces(list *field.Path, requests []resourceapi.DeviceRequest) *Places {
	return &Places{List: list, Length: len(requests), Name: func(i int) string { return requests[i].Name }}
}

func alternativePlaces(list *field.Path, alternatives []resourceapi.DeviceSubRequest) *Places {
	return &Places{List: list, Length: len(alternatives), Name: func(i int) string { return alternatives[i].Name }}
}

func (p *Places) At(index int) *field.Path {
	if name := p.Name(index); p.IsFirst(index) {
		return ItemPath(p.List, index, name)
	}
	return p.List.Index(index)
}

// IsFirst reports whether no earlier item has the same name.
func (p *Places) IsFirst(index int) bool {
	if p.Length <= shortList {
		for i := range index {
			if p.Name(i) == p.Name(index) {
				return false
			}
		}
		return true
	}
	if p.first == nil {
		p.first = make(map[string]int, p.Length)
		for i := range p.Length {
			if _, known := p.first[p.Name(i)]; !known {
				p.first[p.Name(i)] = i
			}
		}
	}
	return p.first[p.Name(index)] == index
}

// ItemPath is the path of a list item: by its name, or by its index when it has none.
// A name that could be taken for an index is marked: spec.devices[name=0].
func ItemPath(list *field.Path, index int, name string) *field.Path {
	switch {
	case name == "":
		return list.Index(index)
	case strings.Trim(name, "0123456789") == "":
		return list.Key("name=" + name)
	default:
		return list.Key(name)
	}
}
