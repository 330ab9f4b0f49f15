package policy

import (
	"math/rand/v2"
	"testing"
)

// FuzzAnyPolicy: with guards policies say what they say without them, for policies and
// writes that a seed draws.
func FuzzAnyPolicy(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, one, other uint64) {
		random := rand.New(rand.NewPCG(one, other))
		e := anyEngine(t, random, 8)
		for range 20 {
			sameAsReference(t, e, anyWrite(random))
		}
	})
}
