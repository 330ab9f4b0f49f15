package evictor

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
)

// tolerance says for how many seconds tolerations tolerate a NoExecute taint: the
// least of those that match, nil if none does; or for ever.
func tolerance(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint, empty EmptyEffect) (seconds *int64, forever bool) {
	for _, toleration := range tolerations {
		if !resourceclaim.ToleratesTaint(toleration, taint) {
			continue
		}
		switch {
		case toleration.Effect == "" && empty == EmptyEffectNoSchedule:
			continue
		case toleration.Effect == "" || toleration.TolerationSeconds == nil:
			return nil, true
		}
		if s := max(*toleration.TolerationSeconds, 0); seconds == nil || s < *seconds {
			seconds = ptr.To(s)
		}
	}
	return seconds, false
}

// endOfTime is the last second that RFC 3339, and so the API, can write.
var endOfTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// later is start and seconds more, at most endOfTime. A time.Duration would overflow
// after 292 years.
func later(start time.Time, seconds int64) time.Time {
	if seconds >= endOfTime.Unix()-start.Unix() {
		return endOfTime
	}
	return time.Unix(start.Unix()+seconds, int64(start.Nanosecond())).In(start.Location())
}
