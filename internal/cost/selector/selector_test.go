package selector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
)

func features() dracel.Features {
	return dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
}

func deviceOf() dracel.Device {
	d := hostile.Device("gpu-0")
	return dracel.Device{Driver: hostile.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes}
}

// evaluate returns the error of an expression, of the compiler or of the evaluation.
func evaluate(t *testing.T, c *selector.Compiler, expression string) error {
	t.Helper()
	compiled := c.Compile(expression, dracel.Options{DisableCostEstimation: true})
	if selector.TooExpensive(compiled) {
		return selector.ErrTooExpensive
	}
	if compiled.Error != nil {
		t.Errorf("%.200s does not compile: %v", expression, compiled.Error)
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := compiled.DeviceMatches(ctx, deviceOf())
	return err
}

func TestHostileExpressionsEnd(t *testing.T) {
	c := &selector.Compiler{Features: features()}
	if err := evaluate(t, c, "device.driver == 'gpu.example.com'"); err != nil {
		t.Fatal(err)
	}
	for _, expression := range hostile.Expressions() {
		took := hostile.Takes(func() {
			if err := evaluate(t, c, expression); !errors.Is(err, selector.ErrTooExpensive) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%.200s: got the error %v, want that it is too expensive", expression, err)
			}
		})
		if took > hostile.Within {
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}

// TestNumbersWithinTheBounds holds that a number is either refused or parsed soon.
func TestNumbersWithinTheBounds(t *testing.T) {
	c := &selector.Compiler{Features: features()}
	for _, number := range []string{"1e-999", "1e999", "-9.99E+0999", strings.Repeat("7", 1000), "1e-18", "80Gi", "1E", "0.1Ei", "12e3"} {
		compiled := c.Compile("isQuantity('"+number+"')", dracel.Options{})
		took := hostile.Takes(func() {
			if matches, _, err := compiled.DeviceMatches(t.Context(), deviceOf()); err != nil || !matches {
				t.Errorf("%.30s: got %t, %v, want true", number, matches, err)
			}
		})
		if took > 50*time.Millisecond {
			t.Errorf("%.30s: takes %v", number, took)
		}
	}
}

// TestEveryFunctionIsJudged fails for a function that a newer library adds.
func TestEveryFunctionIsJudged(t *testing.T) {
	compiled := (&selector.Compiler{Features: features()}).Compile("true", dracel.Options{})
	for name := range compiled.Environment.Functions() {
		if !selector.Judged(name) {
			t.Errorf("function %s: say in work.go how much work it does", name)
		}
	}
}
