package compare

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

var (
	sliceItem       = regexp.MustCompile(`^spec\.(devices|sharedCounters)\[(\d+)\]`)
	requestItem     = regexp.MustCompile(`^(spec|spec\.spec)\.devices\.requests\[(\d+)\]`)
	alternativeItem = regexp.MustCompile(`^\.firstAvailable\[(\d+)\]`)
)

// sliceNames names the device or the set of counters in a place of a slice.
func sliceNames(slice *resourceapi.ResourceSlice, place string) string {
	at := sliceItem.FindStringSubmatch(place)
	if at == nil {
		return place
	}
	var names []string
	for _, device := range slice.Spec.Devices {
		names = append(names, device.Name)
	}
	if at[1] == "sharedCounters" {
		names = nil
		for _, set := range slice.Spec.SharedCounters {
			names = append(names, set.Name)
		}
	}
	index, err := strconv.Atoi(at[2])
	if err != nil || index >= len(names) {
		return place
	}
	name := names[index]
	if slices.Index(names, name) < index {
		name = "" // an item with the name of an earlier one
	}
	return "spec." + at[1] + item(at[2], name) + place[len(at[0]):]
}

func claimNames(claim *resourceapi.ResourceClaim, place string) string {
	return requestNames(&claim.Spec, place)
}

func templateNames(template *resourceapi.ResourceClaimTemplate, place string) string {
	return requestNames(&template.Spec.Spec, place)
}

// requestNames names the request in a place of a claim, and the alternative in it.
func requestNames(spec *resourceapi.ResourceClaimSpec, place string) string {
	at := requestItem.FindStringSubmatch(place)
	if at == nil {
		return place
	}
	index, err := strconv.Atoi(at[2])
	if err != nil || index >= len(spec.Devices.Requests) {
		return place
	}
	request, rest := spec.Devices.Requests[index], place[len(at[0]):]
	named := at[1] + ".devices.requests" + item(at[2], request.Name)
	if sub := alternativeItem.FindStringSubmatch(rest); sub != nil {
		index, err := strconv.Atoi(sub[1])
		if err == nil && index < len(request.FirstAvailable) {
			return named + ".firstAvailable" + item(sub[1], request.FirstAvailable[index].Name) + rest[len(sub[0]):]
		}
	}
	return named + rest
}

// item writes a list item as package validate does.
func item(index, name string) string {
	switch {
	case name == "":
		return "[" + index + "]"
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
