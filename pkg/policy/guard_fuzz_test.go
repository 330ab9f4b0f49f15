package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/fstest"
	"time"
)

// FuzzAnyPolicy: with guards policies say what they say without them, for policies and
// writes that a seed draws.
func FuzzAnyPolicy(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, one, other uint64) {
		random := rand.New(rand.NewPCG(one, other))
		files := fstest.MapFS{}
		for i := range 8 {
			files[fmt.Sprintf("p%d.rego", i)] = &fstest.MapFile{Data: []byte(anyPolicy(random, i))}
		}
		set, err := Parse(t.Context(), Source{Name: "any", Files: files})
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEngine(set, Settings{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			sameAsReference(t, e, anyWrite(random))
		}
	})
}
