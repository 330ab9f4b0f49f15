package main

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/resource/validation"

	"oracle/wire"
)

// measure times the hand-written validation of a new object, without reading it, without
// its strategy and without the declarative validation.
func measure(c wire.Case) (*wire.Measured, error) {
	obj, _, err := decode(c.Object)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	var check func()
	switch obj := obj.(type) {
	case *resource.ResourceSlice:
		check = func() { errs = validation.ValidateResourceSlice(obj) }
	case *resource.ResourceClaim:
		check = func() { errs = validation.ValidateResourceClaim(obj) }
	default:
		return nil, fmt.Errorf("%T is not measured", obj)
	}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			check()
		}
	})
	return &wire.Measured{
		Nanoseconds: float64(result.T.Nanoseconds()) / float64(result.N),
		Allocations: result.AllocsPerOp(), Bytes: result.AllocedBytesPerOp(), Errors: len(errs),
	}, nil
}
