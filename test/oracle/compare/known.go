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
	// op, kind and place match the whole of their field, place the pattern of it.
	op, kind, place string
	// below is whether a list that holds the place is too long.
	below  bool
	reason string
}

var knownDifferences = []known{
	{
		side: Surplus, op: "update", kind: "DeviceTaintRule", place: `spec\.taint\.effect`, minors: []int{35, 36, 37},
		reason: "an unchanged effect of a DeviceTaintRule is not looked at again in an update: taint-effect needs an Update",
	},
	{
		side: Surplus, op: "update", kind: "ResourceSlice", place: `spec\.devices\[\*\]\.taints.*`, minors: []int{35, 36, 37},
		reason: "unchanged taints of a device are not looked at again in an update: device-taints-max and taint-* need an Update",
	},
	{
		side: Surplus, op: "update", kind: "ResourceSlice", place: `spec\.devices\[\*\]\.capacity`, minors: []int{37},
		reason: "the unchanged capacity of a device is not looked at again in an update, not even the names: attribute-name needs an Update",
	},
	{
		side: Surplus, op: "update", kind: "ResourceClaim", place: `spec\..*`, minors: []int{35, 36, 37},
		reason: "the spec of a claim is immutable and not looked at again in an update: the rules for claims need an Update",
	},
	{
		side: Surplus, op: ".*", kind: "ResourceSlice", place: `spec\.devices\[\*\].*`, below: true,
		reason: "of more than 64 devices with taints, counters or lists the API server looks at none; Devices() walks up to 128",
	},
	{
		side: Missing, op: ".*", kind: "ResourceSlice", place: `spec\.devices\[\*\]\.taints\[\*\]\.effect`, below: true, minors: []int{37},
		reason: "declarative validation looks at the effects of all taints, even if there are too many taints or devices: sliceTaints walks none of these",
	},
	{
		side: Missing, op: ".*", kind: claims, place: `.*\.tolerations\[\*\].*`, below: true,
		reason: "more than 16 tolerations are refused by the gap rule request-tolerations-max, which no API server has; the single ones are not looked at",
	},
}

// knownReason returns why a difference is no news.
func knownReason(minor int, d Difference) (string, bool) {
	for _, k := range knownDifferences {
		if k.side == d.Side && k.below == (d.Below != "") && (k.minors == nil || slices.Contains(k.minors, minor)) &&
			whole(k.op, d.Op) && whole(k.kind, d.Kind) && whole(k.place, Pattern(d.Place)) {
			return k.reason, true
		}
	}
	return "", false
}

func whole(pattern, text string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}
