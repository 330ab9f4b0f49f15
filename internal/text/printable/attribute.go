package printable

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Attribute returns the value of an attribute, those of a list with commas. It escapes nothing.
func Attribute(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	}
	texts := append(append([]string{}, a.StringValues...), a.VersionValues...)
	for _, n := range a.IntValues {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	for _, b := range a.BoolValues {
		texts = append(texts, strconv.FormatBool(b))
	}
	return strings.Join(texts, ",")
}
