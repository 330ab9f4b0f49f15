package mutate

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

const ruleTimeAdded = "/spec/taint/timeAdded"

// DeviceTaintRule lists the defaults for DeviceTaintRules. Append yours here and
// put its examples into examples/<ID>.txtar.
func DeviceTaintRule() Table[resourceapi.DeviceTaintRule] {
	return Table[resourceapi.DeviceTaintRule]{
		{
			ID: "taint-time-renew",
			Doc: `A DeviceTaintRule whose effect changes gets a new timeAdded.

tolerationSeconds count from timeAdded. Without a new time, a rule that had the effect None or
NoSchedule for a week would evict immediately when it changes to NoExecute, whatever the
tolerationSeconds. If the update also changes timeAdded, that value stays.`,
			Upstream: "does the same since 1.36",
			Source:   "KEP-5055, DeviceTaintRule strategy PrepareForUpdate",
			Apply:    renewTime,
		},
		{
			ID:       "taint-time-set",
			Doc:      taintTimeSetDoc,
			Upstream: taintTimeSetServer,
			Source:   taintTimeSetSource,
			Apply: func(w Write[resourceapi.DeviceTaintRule], _ Settings) (Result, error) {
				if w.Object.Spec.Taint.TimeAdded != nil {
					return Result{}, nil
				}
				w.Object.Spec.Taint.TimeAdded = w.now()
				return Result{Changes: []Change{{Pointer: ruleTimeAdded, Value: w.now()}}}, nil
			},
		},
	}
}

const (
	taintTimeSetDoc = `A taint without timeAdded gets the time of the write.

tolerationSeconds are counted from timeAdded; without it the time of a tolerated eviction is
unknown.`
	taintTimeSetServer = "does the same at decoding, in every version that knows taints"
	taintTimeSetSource = "KEP-5055, DeviceTaint.TimeAdded"
)

func renewTime(w Write[resourceapi.DeviceTaintRule], _ Settings) (Result, error) {
	old, err := w.old()
	if err != nil || old == nil {
		return Result{}, err
	}
	is, was := &w.Object.Spec.Taint, old.Spec.Taint
	if is.Effect == was.Effect || is.TimeAdded == nil || was.TimeAdded == nil || !is.TimeAdded.Time.Equal(was.TimeAdded.Time) {
		return Result{}, nil
	}
	if is.TimeAdded.Time.Equal(w.now().Time) {
		return Result{}, nil
	}
	is.TimeAdded = w.now()
	return Result{Changes: []Change{{Pointer: ruleTimeAdded, Value: w.now()}}}, nil
}

func taintPointer(device, taint int) string {
	return fmt.Sprintf("/spec/devices/%d/taints/%d/timeAdded", device, taint)
}
