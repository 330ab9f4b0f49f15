package toleration_test

import (
	"iter"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// pairs yields every combination of what matters to a toleration and to a taint.
func pairs() iter.Seq2[resourceapi.DeviceToleration, resourceapi.DeviceTaint] {
	texts := []string{"", "a", "example.com/b"}
	effects := []resourceapi.DeviceTaintEffect{"", "None", "NoSchedule", "NoExecute", "PreferNoSchedule"}
	operators := []resourceapi.DeviceTolerationOperator{"", "Equal", "Exists", "exists", "Gt"}
	var tolerations []resourceapi.DeviceToleration
	var taints []resourceapi.DeviceTaint
	for _, key := range texts {
		for _, value := range texts {
			for _, effect := range effects {
				taints = append(taints, resourceapi.DeviceTaint{Key: key, Value: value, Effect: effect})
				for _, operator := range operators {
					tolerations = append(tolerations, resourceapi.DeviceToleration{Key: key, Value: value, Effect: effect, Operator: operator})
				}
			}
		}
	}
	return func(yield func(resourceapi.DeviceToleration, resourceapi.DeviceTaint) bool) {
		for _, t := range tolerations {
			for _, taint := range taints {
				if !yield(t, taint) {
					return
				}
			}
		}
	}
}

// TestToleratesLikeUpstream: the default reading is that of the scheduler; the other
// differs only for tolerations without an effect and NoExecute taints.
func TestToleratesLikeUpstream(t *testing.T) {
	compared, tolerated, differ := 0, 0, 0
	inTree := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}
	for one, taint := range pairs() {
		want := resourceclaim.ToleratesTaint(one, taint)
		if got := (toleration.Evaluator{}).Tolerates(one, taint); got != want {
			t.Errorf("%+v tolerates %+v: got %t, upstream says %t", one, taint, got, want)
		}
		if compared++; want {
			tolerated++
		}
		if other := inTree.Tolerates(one, taint); other != want {
			if differ++; other || one.Effect != "" || taint.Effect != "NoExecute" {
				t.Errorf("%+v tolerates %+v: got %t with EmptyEffectNoSchedule", one, taint, other)
			}
		}
	}
	if compared != 10125 || tolerated == 0 || differ == 0 {
		t.Errorf("compared %d, %d tolerated, %d differ", compared, tolerated, differ)
	}
}

// inTree is how the eviction controller of Kubernetes 1.37 evaluates tolerations of a
// NoExecute taint, in its order of statements.
func inTree(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) toleration.Period {
	var shortest *int64
	tolerated := false
	for _, t := range tolerations {
		if t.Effect != resourceapi.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(t, taint) {
			continue
		}
		tolerated = true
		if t.TolerationSeconds == nil {
			return toleration.Period{Tolerated: true}
		}
		if seconds := max(*t.TolerationSeconds, 0); shortest == nil || seconds < *shortest {
			shortest = &seconds
		}
	}
	return toleration.Period{Tolerated: tolerated, Seconds: shortest}
}

// TestEvaluateLikeTheEvictionController: with EmptyEffectNoSchedule, NoExecute taints are
// tolerated as long as the in-tree controller tolerates them.
func TestEvaluateLikeTheEvictionController(t *testing.T) {
	evaluator := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}
	for one, taint := range pairs() {
		if taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue
		}
		for _, seconds := range []*int64{nil, new(int64(-1)), new(int64(5))} {
			one.TolerationSeconds = seconds
			list := []resourceapi.DeviceToleration{one, {Key: "a", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(3))}}
			if diff := cmp.Diff(inTree(list, taint), evaluator.Evaluate(list, taint)); diff != "" {
				t.Errorf("%+v and %+v: -in-tree +ours:\n%s", list, taint, diff)
			}
		}
	}
}

// TestEmptyTolerationToleratesEveryTaintWithoutValue: the trap that DRA-TOL-001 is for.
func TestEmptyTolerationToleratesEveryTaintWithoutValue(t *testing.T) {
	lost := resourceapi.DeviceTaint{Key: "gpu.nvidia.com/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if !(toleration.Evaluator{}).Tolerates(resourceapi.DeviceToleration{}, lost) {
		t.Error("{} does not tolerate a taint without value")
	}
}

func TestEvaluate(t *testing.T) {
	forever := toleration.Period{Tolerated: true}
	after := func(seconds int64) toleration.Period { return toleration.Period{Tolerated: true, Seconds: &seconds} }
	with := func(effect resourceapi.DeviceTaintEffect, seconds ...int64) []resourceapi.DeviceToleration {
		var all []resourceapi.DeviceToleration
		for _, s := range seconds {
			all = append(all, resourceapi.DeviceToleration{Key: "a", Operator: "Exists", Effect: effect, TolerationSeconds: &s})
		}
		return all
	}
	documented, inTree := toleration.Evaluator{}, toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}
	for name, tt := range map[string]struct {
		evaluator   toleration.Evaluator
		tolerations []resourceapi.DeviceToleration
		want        toleration.Period
	}{
		"none":                                 {documented, nil, toleration.Period{}},
		"no match":                             {documented, []resourceapi.DeviceToleration{{Key: "b", Operator: "Exists"}}, toleration.Period{}},
		"no end":                               {documented, []resourceapi.DeviceToleration{{}}, forever},
		"ten seconds":                          {documented, with("NoExecute", 10), after(10)},
		"the shortest counts":                  {documented, with("NoExecute", 20, 10, 30), after(10)},
		"one has no end":                       {documented, append(with("NoExecute", 10), resourceapi.DeviceToleration{}), forever},
		"negative ends at once":                {documented, with("NoExecute", math.MinInt64), after(0)},
		"the longest":                          {documented, with("NoExecute", math.MaxInt64), after(math.MaxInt64)},
		"empty effect with seconds, API":       {documented, with("", 10), forever},
		"empty effect with seconds, in-tree":   {inTree, with("", 10), toleration.Period{}},
		"empty effect, in-tree, and NoExecute": {inTree, append(with("", 10), with("NoExecute", 20)...), after(20)},
	} {
		t.Run(name, func(t *testing.T) {
			noExecute := resourceapi.DeviceTaint{Key: "a", Effect: "NoExecute"}
			got := tt.evaluator.Evaluate(tt.tolerations, noExecute)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.Forever() != (tt.want.Tolerated && tt.want.Seconds == nil) {
				t.Errorf("Forever() = %t", got.Forever())
			}
		})
	}
	noSchedule := resourceapi.DeviceTaint{Key: "a", Effect: "NoSchedule"}
	if got := inTree.Evaluate(with("", 10), noSchedule); !got.Forever() {
		t.Errorf("seconds end the toleration of a NoSchedule taint: %+v", got)
	}
}
