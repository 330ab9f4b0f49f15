package patch

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// TestViews: all expressions of a slice share what they see of a device, and find the same
// at the same cost as kube-scheduler's code, which makes it again for each. (No expression ends
// early over a map: the cost would depend on its order.)
func TestViews(t *testing.T) {
	version, broken, shared := "1.2.3", "one", true
	s := slice(
		device("a", names{"n": num(1), "model": str("x"), "other.example.com/n": num(7), "v": {VersionValue: &version}}),
		device("b", names{"n": num(2)}),
		device("broken", names{"n": num(1), "v": {VersionValue: &broken}}),
		device("none", nil),
		device("list", names{"l": {StringValues: []string{"p", "q"}}}),
		device("shared", names{"n": num(1)}),
	)
	s.Spec.Devices[5].AllowMultipleAllocations = &shared
	s.Spec.Devices[5].Capacity = sizes{"memory": size("8Gi")}
	var expressions []string
	for _, condition := range []string{
		`device.attributes["gpu.example.com"].n == 1`, `device.attributes["other.example.com"].n == 7`,
		`device.driver == "gpu.example.com"`, `device.allowMultipleAllocations`, `"q" in device.attributes["gpu.example.com"].l`,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("4Gi")) > 0`, `device.attributes["unknown"].n == 1`,
		`device.attributes["gpu.example.com"].v.isGreaterThan(semver("1.0.0"))`, `"n" in device.attributes["gpu.example.com"]`,
		`device.attributes["gpu.example.com"].model`, `device.attributes["gpu.example.com"].all(k, k != "never")`,
	} {
		expressions = append(expressions, condition, "!("+condition+")")
	}
	e := NewEvaluation(s)
	for i, expression := range expressions {
		compiled := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(expression, dracel.Options{DisableCostEstimation: true})
		p := compile(object(fmt.Sprint("p", i), 0, spec{Filter: celOf(expression)}))[0]
		if (compiled.Error != nil) != (len(p.Problems) > 0) {
			t.Errorf("%s: %v, %v", expression, compiled.Error, p.Problems)
		}
		if compiled.Error != nil {
			continue
		}
		before, cost := e.Spent(), uint64(0)
		m := matchOf(p, e)
		for i, d := range s.Spec.Devices {
			want, details, err := compiled.DeviceMatches(t.Context(), dracel.Device{Driver: s.Spec.Driver,
				AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
			if details != nil && details.ActualCost() != nil {
				cost += min(*details.ActualCost(), resourceapi.CELSelectorExpressionMaxCost)
			}
			if m.has(i) != (want && err == nil) {
				t.Errorf("%s of %s: %t, want %t %v", expression, d.Name, m.has(i), want, err)
			}
		}
		if got := e.Spent() - before; got != cost {
			t.Errorf("%s costs %d, want %d", expression, got, cost)
		}
	}
}
