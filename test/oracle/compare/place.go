package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/json"
)

var (
	sliceItem       = regexp.MustCompile(`^spec\.(devices|sharedCounters)\[(\d+)\]`)
	requestItem     = regexp.MustCompile(`^(spec|spec\.spec)\.devices\.requests\[(\d+)\]`)
	alternativeItem = regexp.MustCompile(`^\.firstAvailable\[(\d+)\]`)
)

// A named is an item of a list whose items have names.
type named struct {
	Name string `json:"name"`
}

func (n named) name() string { return n.Name }

type requestNames struct {
	named
	FirstAvailable []named `json:"firstAvailable"`
}

type requestList struct {
	Devices struct {
		Requests []requestNames `json:"requests"`
	} `json:"devices"`
}

// namesOf reads nothing else of an object, which may not be readable as a whole.
func namesOf[T any](object []byte) (names T) {
	_ = json.UnmarshalCaseSensitivePreserveInts(object, &names) // what has no name goes by its index
	return names
}

// sliceNames names the device or the set of counters in a place of a slice.
func sliceNames(object []byte) func(place string) string {
	slice := namesOf[struct {
		Spec struct {
			Devices        []named `json:"devices"`
			SharedCounters []named `json:"sharedCounters"`
		} `json:"spec"`
	}](object)
	return func(place string) string {
		at := sliceItem.FindStringSubmatch(place)
		if at == nil {
			return place
		}
		list := slice.Spec.Devices
		if at[1] == "sharedCounters" {
			list = slice.Spec.SharedCounters
		}
		index, err := strconv.Atoi(at[2])
		if err != nil || index >= len(list) {
			return place
		}
		return "spec." + at[1] + itemOf(list, index) + place[len(at[0]):]
	}
}

// claimNames names the request in a place of a claim or template, and the alternative
// in it.
func claimNames(object []byte) func(place string) string {
	claim := namesOf[struct {
		Spec struct {
			requestList
			Spec requestList `json:"spec"`
		} `json:"spec"`
	}](object)
	return func(place string) string {
		at := requestItem.FindStringSubmatch(place)
		if at == nil {
			return place
		}
		requests := claim.Spec.Devices.Requests
		if at[1] == "spec.spec" {
			requests = claim.Spec.Spec.Devices.Requests
		}
		index, err := strconv.Atoi(at[2])
		if err != nil || index >= len(requests) {
			return place
		}
		request, rest := requests[index], place[len(at[0]):]
		named := at[1] + ".devices.requests" + itemOf(requests, index)
		if sub := alternativeItem.FindStringSubmatch(rest); sub != nil {
			index, err := strconv.Atoi(sub[1])
			if err == nil && index < len(request.FirstAvailable) {
				return named + ".firstAvailable" + itemOf(request.FirstAvailable, index) + rest[len(sub[0]):]
			}
		}
		return named + rest
	}
}

// itemOf writes a list item as package validate does: an item with the name of an earlier
// one goes by its index.
func itemOf[T interface{ name() string }](list []T, index int) string {
	name := list[index].name()
	first := slices.IndexFunc(list, func(other T) bool { return other.name() == name })
	switch {
	case name == "" || first < index:
		return fmt.Sprintf("[%d]", index)
	case strings.Trim(name, "0123456789") == "":
		return "[name=" + name + "]"
	default:
		return "[" + name + "]"
	}
}

var brackets = regexp.MustCompile(`\[[^\]]*\]`)

// Pattern is a place with [*] for every item and key.
func Pattern(place string) string {
	return brackets.ReplaceAllString(place, "[*]")
}
