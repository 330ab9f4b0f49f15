package objects

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// random makes values. A wild one is unusual and mostly invalid.
type random struct {
	*rand.Rand
	// wild is the chance of an unusual value, for each value.
	wild float64
}

func (r random) chance(p float64) bool { return r.Float64() < p }

func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// maybe returns a pointer to value, or nil.
func maybe[T any](r random, p float64, value T) *T {
	if r.chance(p) {
		return &value
	}
	return nil
}

// size is the length of a list of which at most limit items are allowed: small for
// the most part, now and then at the limit and one above.
func (r random) size(limit int) int {
	switch {
	case r.chance(r.wild):
		return limit + 1
	case r.chance(0.02):
		return limit
	default:
		return r.IntN(min(limit, 3) + 1)
	}
}

// text returns one of values, or a wild one.
func (r random) text(values ...string) string {
	if r.chance(r.wild) {
		return pick(r, wildTexts...)
	}
	return pick(r, values...)
}

// wildTexts are texts at and beyond the borders of the formats.
var wildTexts = []string{
	"", " ", "-", "a", "A", "0", "12", "name=0", "a-", "-a", "a.b", "a..b", "a_b", "a b", "a/b", "/b", "a/", "a/b/c",
	"ä", "Ab", "1a", "a.B", "example.com/a", "Example.com/a", "example.com/-", "example.com/" + strings.Repeat("a", 63),
	"example.com/" + strings.Repeat("a", 64), strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 63),
	strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a.", 31) + "a", strings.Repeat("a.", 31) + "ab",
	strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "ab", strings.Repeat("a/", 126) + "a", "node-1//a",
	strings.Repeat("a.", 31) + "a/b", strings.Repeat("a.", 32) + "a/b", "1.2.3", "v1", "10.0.0.0/33", "NoSchedule", "noexecute",
	"a\nb", "a]b", "[0]", "None", "Exists", "Equal", "All", "*",
}

func (r random) label() string { return r.text("gpu-0", "gpu-1", "a", "req-0", "0", "mig-1g-5gb") }

// unique is the name of an item of a list in which names are unique.
func (r random) unique(prefix string, i int) string {
	if r.chance(r.wild) {
		return r.label()
	}
	return fmt.Sprintf("%s-%d", prefix, i)
}

func (r random) driver() string { return r.text("gpu.example.com", "nic.example.org", "a") }

func (r random) pool() string { return r.text("node-1", "rack/node-1", "a.b/c") }

func (r random) node() string { return r.text("node-1", "node-2.example.com") }

func (r random) class() string { return r.text("gpu.example.com", "nic", "a") }

func (r random) labelName() string {
	return r.text("example.com/unhealthy", "unhealthy", "example.com/A_b.c", "resource.kubernetes.io/x")
}

func (r random) labelValue() string { return r.text("", "true", "A_b.c", "42") }

// attribute is the name of an attribute or capacity of a device.
func (r random) attribute(i int) string {
	if r.chance(r.wild) {
		return pick(r, wildTexts...)
	}
	return pick(r, "model", "driverVersion", "memory", "example.com/index", "_x") + fmt.Sprint(i)
}

func (r random) qualified() string {
	return r.text("example.com/model", "gpu.example.com/index", "a/b")
}

func (r random) quantity() resource.Quantity {
	if r.chance(r.wild) {
		return resource.MustParse(pick(r, "0", "-1", "1m", "0.5", "9223372036854775807", "9223372036854775808", "1n", "1e3"))
	}
	return resource.MustParse(pick(r, "1", "2", "8", "40Gi", "1k"))
}

func (r random) amount() resource.Quantity {
	return resource.MustParse(pick(r, "1", "2", "4", "8"))
}

func (r random) bool() bool { return r.IntN(2) == 0 }

// expression is a CEL selector. Each costs a compilation, which takes the oracle as
// long as everything else.
func (r random) expression() string {
	return r.text("true", `device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].model == "a"`)
}

// some makes up to limit items.
func some[T any](r random, limit int, item func(i int) T) []T {
	var list []T
	for i := range r.size(limit) {
		list = append(list, item(i))
	}
	return list
}

// table makes a map of up to limit entries.
func table[K comparable, V any](r random, limit int, key func(i int) K, value func() V) map[K]V {
	n := r.size(limit)
	if n == 0 {
		return nil
	}
	entries := map[K]V{}
	for i := range n {
		entries[key(i)] = value()
	}
	return entries
}
