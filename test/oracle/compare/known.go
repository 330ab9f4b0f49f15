package compare

import (
	"regexp"
	"slices"
)

// A known difference is one whose cause has been understood and which waits for its
// correction. Delete the entry with the correction.
type known struct {
	// minors are those of Kubernetes 1 where it shows; none means all.
	minors []int
	side   Side
	// op, kind, place and below match the whole of their field, of place and below the
	// pattern.
	op, kind, place, below pattern

	reason string
}

var knownDifferences = []known{
	{
		side: Unreadable, op: whole(".*"), kind: whole(".*"), minors: []int{34, 35, 36},
		reason: "we read all fields that 1.37 knows; an older API server ignores what it does not know, whatever it holds",
	},
	{
		side: Surplus, op: whole("update"), kind: whole("DeviceTaintRule"), place: whole(`spec\.taint\.effect`), minors: []int{35, 36, 37},
		reason: "an unchanged effect of a DeviceTaintRule is not looked at again in an update: taint-effect needs an Update",
	},
	{
		side: Surplus, op: whole("update"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.taints.*`), minors: []int{35, 36, 37},
		reason: "unchanged taints of a device are not looked at again in an update: device-taints-max and taint-* need an Update",
	},
	{
		side: Surplus, op: whole("update"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.capacity`), minors: []int{37},
		reason: "the unchanged capacity of a device is not looked at again in an update, not even the names: attribute-name needs an Update",
	},
	{
		side: Surplus, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\].*`), below: whole(`spec\.devices`),
		reason: "of more than 64 devices with taints, counters or lists the API server looks at none; Devices() walks up to 128",
	},
	{
		side: Missing, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.taints\[\*\]\.effect`), below: whole(`spec\.devices|.*\.taints`), minors: []int{37},
		reason: "declarative validation looks at the effects of all taints, even if there are too many taints or devices: sliceTaints walks none of these",
	},
	{
		side: Surplus, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.(attributes|capacity)`), minors: []int{34, 35},
		reason: "until 1.35 a bad name of an attribute or capacity is reported at its key, later at the map: attribute-name knows no profile",
	},
	{
		side: Missing, op: whole(".*"), kind: whole(".*"), place: whole(`.*\.effect`), below: whole(".*"), minors: []int{34},
		reason: "1.34 has no effect None: taint-effect and toleration-effect know no profile",
	},
	{
		side: Missing, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.taints`), below: whole(".*"), minors: []int{34},
		reason: "1.34 allows 4 taints: device-taints-max knows no profile",
	},
	{
		side: Surplus, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices(\[\*\](\.taints\[\*\].*)?)?`), below: whole(".*"), minors: []int{34},
		reason: "1.34 allows 128 devices with whatever they have, and skips the items of more than 4 taints: the rules know no profile",
	},
	{
		side: Missing, op: whole(".*"), kind: whole(".*"), place: whole(".*"), below: whole(".+"), minors: []int{34},
		reason: "1.34 looks into lists that are too long as well: the walks know no profile",
	},
	{
		side: Surplus, op: whole("update"), kind: whole(claims), place: whole(`spec|status\.allocation`), minors: []int{34, 35, 36},
		reason: "a field that the minor does not know is no change in what is immutable: its drop must not depend on the stored object",
	},
	{
		side: Surplus, op: whole("update"), kind: whole("ResourceClaimTemplate"), place: whole(`spec\.spec\..*\.firstAvailable\[.*`), below: whole(requests + `\[\*\]+`), minors: []int{37},
		reason: "of a request that is both exact and has alternatives declarative validation alone looks at the alternatives, and in an update not at unchanged ones",
	},
	{
		side: Surplus, op: whole("update"), kind: whole("ResourceSlice"), place: whole(`spec\.devices(\[\*\]\.attributes\[\*\].*)?`), minors: []int{34, 35},
		reason: "lists of values, which the minor does not know, are kept if the stored slice has them: the drop of slices must not depend on it",
	},
	{
		side: Surplus, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.attributes\[\*\].*`),
		reason: "the API server shortens a key of more than 96 bytes in the place of an error: attribute-value and attribute-value-length do not",
	},
	{
		side: Missing, op: whole(".*"), kind: whole("ResourceSlice"), place: whole(`spec\.devices\[\*\]\.attributes\[\*\]\..*`),
		reason: "the API server shortens a key of more than 96 bytes in the place of an error: attribute-value-length does not",
	},
}

// knownReason returns why a difference is no news.
func knownReason(minor int, d Difference) (string, bool) {
	for _, k := range knownDifferences {
		if k.side == d.Side && (k.minors == nil || slices.Contains(k.minors, minor)) &&
			k.op.matches(d.Op) && k.kind.matches(d.Kind) && k.place.matches(Pattern(d.Place)) && k.below.matches(Pattern(d.Below)) {
			return k.reason, true
		}
	}
	return "", false
}

// A pattern matches a whole text.
type pattern struct{ *regexp.Regexp }

func whole(text string) pattern { return pattern{regexp.MustCompile("^(?:" + text + ")$")} }

func (p pattern) matches(text string) bool {
	if p.Regexp == nil {
		return text == ""
	}
	return p.MatchString(text)
}
