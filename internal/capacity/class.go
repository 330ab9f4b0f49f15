package capacity

import (
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// A driverExpression is a CEL expression and the driver of a device.
type driverExpression struct{ expression, driver string }

// driverOnly reports whether the value of an expression depends on the driver of a device
// only, as that of most classes. Such an expression is evaluated once for each driver.
func driverOnly(expression string) bool {
	return !strings.Contains(strings.ReplaceAll(expression, "device.driver", ""), "device")
}

// inClass reports whether a class selects a device. The error is that of an expression: the
// scheduler stops at it.
func (s *survey) inClass(ctx context.Context, class *resourceapi.DeviceClass, driver string, d *resourceapi.Device) (bool, error) {
	for i, selector := range class.Spec.Selectors {
		if selector.CEL == nil {
			return false, fmt.Errorf("DeviceClass %s: selector %d has no expression", class.Name, i)
		}
		matches, err := s.matches(ctx, selector.CEL.Expression, driver, d)
		if err != nil {
			return false, fmt.Errorf("DeviceClass %s: selector %d fails on device %s, and kube-scheduler stops there: %w", class.Name, i, d.Name, err)
		}
		if !matches {
			return false, nil
		}
	}
	return true, nil
}

// matches evaluates an expression.
func (s *survey) matches(ctx context.Context, expression, driver string, d *resourceapi.Device) (bool, error) {
	key := driverExpression{expression, driver}
	if matches, known := s.ofDriver[key]; known {
		return matches, nil
	}
	compiled := s.cache.GetOrCompile(expression)
	if compiled.Error != nil {
		return false, fmt.Errorf("it does not compile: %s", compiled.Error.Detail)
	}
	matches, _, err := compiled.DeviceMatches(ctx, dracel.Device{
		Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
	})
	if err == nil && driverOnly(expression) {
		s.ofDriver[key] = matches
	}
	return matches, err
}
