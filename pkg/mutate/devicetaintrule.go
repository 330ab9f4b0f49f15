package mutate

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

const ruleTimeAdded = "/spec/taint/timeAdded"

// DeviceTaintRule lists the defaults for DeviceTaintRules. Append yours here and
// put its examples into examples/<ID>.txtar.
var DeviceTaintRule = Table[resourceapi.DeviceTaintRule]{
	{
		ID: "taint-time-renew",
		Doc: `The effect of a DeviceTaintRule changed: its taint counts from now.

tolerationSeconds are counted from timeAdded. A rule that has informed with None or
kept pods away with NoSchedule for a week would otherwise evict at once, with no
grace left, when it becomes NoExecute. A timeAdded that the update changes as well
is left as it is.`,
		Server: "does the same since 1.36",
		Source: "KEP-5055, DeviceTaintRule strategy PrepareForUpdate",
		Apply:  renewTime,
	},
	{
		ID:     "taint-time-set",
		Doc:    taintTimeSetDoc,
		Server: taintTimeSetServer,
		Source: taintTimeSetSource,
		Apply: func(w Write[resourceapi.DeviceTaintRule], _ Settings) (Result, error) {
			if w.Object.Spec.Taint.TimeAdded != nil {
				return Result{}, nil
			}
			w.Object.Spec.Taint.TimeAdded = w.now()
			return Result{Changes: []Change{{Pointer: ruleTimeAdded, Value: w.now()}}}, nil
		},
	},
}

const (
	taintTimeSetDoc = `A taint without timeAdded gets the time of the write.

tolerationSeconds are counted from timeAdded; without it nobody could tell when a
tolerated eviction is due.`
	taintTimeSetServer = "does the same at decoding, in every version that knows taints"
	taintTimeSetSource = "KEP-5055, DeviceTaint.TimeAdded"
)

func renewTime(w Write[resourceapi.DeviceTaintRule], _ Settings) (Result, error) {
	old, err := w.Old()
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
