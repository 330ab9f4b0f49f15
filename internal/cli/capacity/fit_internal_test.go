package capacity

import (
	"bytes"
	"testing"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// TestFitWhereSearchesAreSlow: the number is what fits at least, and the nodes are named.
func TestFitWhereSearchesAreSlow(t *testing.T) {
	r := fitReport{Subject: "pod a/train", Room: capacity.Room{Least: 3, Most: 3, Orders: 1, Slow: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}}}
	r.Replicas, r.AllFit = 4, new(bool)
	o := fitOptions{output: "text"}
	o.Files = []string{}
	var out bytes.Buffer
	if err := o.write(&out, r); err != nil {
		t.Fatal(err)
	}
	const want = `pod a/train: 3 or more pods fit; it is not known whether 4 replicas fit
not searched to the end: a, b, c, d, e, f, g, h and 2 more
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
