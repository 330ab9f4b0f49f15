package validate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSearched: searches that are remembered find what they find the first time, whatever was asked before and
// whatever slices came since.
func TestSearched(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	size := `device.attributes["gpu.example.com"].size > 1`
	expressions := []string{number + " > 97", number + " > 100", size, number + " == 5 && " + size, "what(", "true", "true;1:", number + " < 3 // " + strings.Repeat("x", rememberedExpression)}
	classes := []string{"gpu", "all", "sized"}
	remembering := liveWorld(3)
	add := func(view *Objects, slices int) {
		for name, selectors := range map[string][]resourceapi.DeviceSelector{"all": nil, "sized": selecting(number+" == 1", size)} {
			view.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: selectors}})
		}
		for i := range slices {
			view.Add(liveSlice(fmt.Sprint("more-", i), 10*i))
		}
	}
	c := Conditions{ClusterView: remembering, Evaluations: &Evaluations{}}
	slices := 0
	add(remembering, slices)
	for round := range 300 {
		if round%60 == 59 {
			slices++
			add(remembering, slices)
		}
		var asked []string
		for range random.IntN(3) {
			asked = append(asked, expressions[random.IntN(len(expressions))])
		}
		claim := asking(asked...)
		claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = classes[random.IntN(len(classes))]
		fresh := liveWorld(3)
		add(fresh, slices)
		got, want := live(claim, c), live(claim, Conditions{ClusterView: fresh, Evaluations: &Evaluations{}})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d, class %s, selectors %q: %v\nwant %v", round, claim.Spec.Devices.Requests[0].Exactly.DeviceClassName, asked, got, want)
		}
	}
	if errs := live(asking(expressions[0]), c); len(errs) > 0 {
		t.Fatal(errs)
	}
	given := 0
	c.Limiter = &turnsOf{given: &given} // none
	if errs := live(asking(expressions[0]), c); len(errs) > 0 {
		t.Errorf("a search that was remembered: %v", errs)
	}
}

// TestSearchesAreBounded: selectors that tenants make up do not fill the memory.
func TestSearchesAreBounded(t *testing.T) {
	view := liveWorld(1)
	o := view.order()
	for i := range 50_000 {
		s := search{class: &resourceapi.DeviceClass{}, selectors: selecting(fmt.Sprintf("%d == 1 // %s", i, strings.Repeat("x", 500)))}
		key := s.key()
		o.searches().Add(key, searched{}, int64(len(key)))
	}
	kept := 0
	for i := range 50_000 {
		s := search{class: &resourceapi.DeviceClass{}, selectors: selecting(fmt.Sprintf("%d == 1 // %s", i, strings.Repeat("x", 500)))}
		if _, is := o.searches().Get(s.key()); is {
			kept++
		}
	}
	if kept == 0 || kept > searchBytes/500 {
		t.Errorf("%d searches of 500 bytes are remembered, want some, and at most %d", kept, searchBytes/500)
	}
}

// BenchmarkRememberedSearch checks a claim whose selectors were evaluated before, with the searches that are remembered and
// with the evaluations alone. A device of the first slice matches, or none of all.
func BenchmarkRememberedSearch(b *testing.B) {
	for _, test := range []struct {
		selector          string
		matches, searches bool
	}{{number + " > 97", true, true}, {number + " > 97", true, false}, {number + " > 100", false, true}, {number + " > 100", false, false}} {
		b.Run(fmt.Sprintf("matches=%t/searches=%t", test.matches, test.searches), func(b *testing.B) {
			view := liveWorld(100)
			view.order()
			c := Conditions{ClusterView: view, Evaluations: &Evaluations{}}
			claim := asking(test.selector)
			for b.Loop() {
				if !test.searches {
					view.ordered.Load().known = searchCache{}
				}
				if errs := live(claim, c); len(errs) > 0 == test.matches {
					b.Fatal(errs)
				}
			}
		})
	}
}
