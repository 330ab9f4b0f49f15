package evictor

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// tolerance says for how many seconds tolerations tolerate a NoExecute taint: the
// least of those that match, nil if none does; or for ever.
func tolerance(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint, empty EmptyEffect) (seconds *int64, forever bool) {
	for _, t := range tolerations {
		if !toleration.Tolerates(t, taint) {
			continue
		}
		switch {
		case t.Effect == "" && empty == EmptyEffectNoSchedule:
			continue
		case t.Effect == "" || t.TolerationSeconds == nil:
			return nil, true
		}
		if s := max(*t.TolerationSeconds, 0); seconds == nil || s < *seconds {
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
