package toleration_test

import (
	"math"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// TestToleratesLikeUpstream compares with upstream's own function on every
// combination of what matters to either.
func TestToleratesLikeUpstream(t *testing.T) {
	texts := []string{"", "a", "example.com/b"}
	effects := []resourceapi.DeviceTaintEffect{"", "None", "NoSchedule", "NoExecute", "PreferNoSchedule"}
	operators := []resourceapi.DeviceTolerationOperator{"", "Equal", "Exists", "exists", "Gt"}
	compared, tolerated := 0, 0
	for _, key := range texts {
		for _, value := range texts {
			for _, effect := range effects {
				for _, operator := range operators {
					for _, taintKey := range texts {
						for _, taintValue := range texts {
							for _, taintEffect := range effects {
								one := resourceapi.DeviceToleration{Key: key, Value: value, Effect: effect, Operator: operator}
								taint := resourceapi.DeviceTaint{Key: taintKey, Value: taintValue, Effect: taintEffect}
								got, want := toleration.Tolerates(one, taint), resourceclaim.ToleratesTaint(one, taint)
								if got != want {
									t.Errorf("%+v tolerates %+v: got %t, upstream says %t", one, taint, got, want)
								}
								compared++
								if want {
									tolerated++
								}
							}
						}
					}
				}
			}
		}
	}
	if compared != 10125 || tolerated == 0 {
		t.Errorf("compared %d, %d tolerated", compared, tolerated)
	}
}

// TestEmptyTolerationToleratesEveryTaintWithoutValue: the trap that DRA-TOL-001 is for.
func TestEmptyTolerationToleratesEveryTaintWithoutValue(t *testing.T) {
	lost := resourceapi.DeviceTaint{Key: "gpu.nvidia.com/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if !toleration.Tolerates(resourceapi.DeviceToleration{}, lost) {
		t.Error("{} does not tolerate a taint without value")
	}
}

func TestExpires(t *testing.T) {
	added := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	forever := toleration.Expiry{Tolerated: true, Forever: true}
	at := func(d time.Duration) toleration.Expiry { return toleration.Expiry{Tolerated: true, At: added.Add(d)} }
	exists := func(seconds ...int64) []resourceapi.DeviceToleration {
		var all []resourceapi.DeviceToleration
		for _, s := range seconds {
			all = append(all, resourceapi.DeviceToleration{Key: "a", Operator: "Exists", TolerationSeconds: &s})
		}
		return all
	}
	noExecute := resourceapi.DeviceTaint{Key: "a", Effect: "NoExecute", TimeAdded: &metav1.Time{Time: added}}
	undated := noExecute
	undated.TimeAdded = nil
	for name, tt := range map[string]struct {
		tolerations []resourceapi.DeviceToleration
		taint       resourceapi.DeviceTaint
		want        toleration.Expiry
	}{
		"none":                   {nil, noExecute, toleration.Expiry{}},
		"no match":               {[]resourceapi.DeviceToleration{{Key: "b", Operator: "Exists"}}, noExecute, toleration.Expiry{}},
		"for ever":               {[]resourceapi.DeviceToleration{{}}, noExecute, forever},
		"ten seconds":            {exists(10), noExecute, at(10 * time.Second)},
		"the shortest counts":    {exists(20, 10, 30), noExecute, at(10 * time.Second)},
		"one for ever":           {append(exists(10), resourceapi.DeviceToleration{}), noExecute, forever},
		"negative ends at once":  {exists(math.MinInt64), noExecute, at(0)},
		"the longest that fits":  {exists(toleration.MaxSeconds), noExecute, at(time.Duration(toleration.MaxSeconds) * time.Second)},
		"more than fits":         {exists(math.MaxInt64), noExecute, at(time.Duration(toleration.MaxSeconds) * time.Second)},
		"seconds need NoExecute": {exists(10), resourceapi.DeviceTaint{Key: "a", Effect: "NoSchedule"}, forever},
		"a taint without a time": {exists(10), undated, at(time.Minute + 10*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := toleration.Expires(tt.tolerations, tt.taint, added.Add(time.Minute)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
