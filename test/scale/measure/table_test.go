package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A figure is one measurement at one size.
type figure struct {
	name, unit string
	value      float64
	// target is what is aimed at with 5,000 nodes.
	target string
	// grows says that the figure is expected to grow with the cluster.
	grows bool
}

// A step is what was measured in a cluster of one size.
type step struct {
	nodes   int
	figures []figure
}

func (s *step) add(name string, value float64, unit, target string) {
	s.figures = append(s.figures, figure{name: name, unit: unit, value: value, target: target})
}

func (s *step) addGrowing(name string, value float64, unit, target string) {
	s.figures = append(s.figures, figure{name: name, unit: unit, value: value, target: target, grows: true})
}

func (s *step) value(name string) (float64, bool) {
	i := slices.IndexFunc(s.figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		return 0, false
	}
	return s.figures[i].value, true
}

// superlinear is the exponent of growth above which a figure is named.
const superlinear = 1.1

// table prints the steps side by side in Markdown, with the exponent of growth between the last
// two, and names what grows faster than the cluster.
func table(steps []*step, machine string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n| figure |", machine)
	for _, s := range steps {
		fmt.Fprintf(&out, " %d nodes |", s.nodes)
	}
	fmt.Fprintf(&out, " exponent | target at 5,000 nodes |\n|%s\n", strings.Repeat(" --- |", len(steps)+3))
	var fast []string
	for _, f := range steps[len(steps)-1].figures {
		fmt.Fprintf(&out, "| %s |", f.name)
		for _, s := range steps {
			if value, known := s.value(f.name); known {
				fmt.Fprintf(&out, " %s |", form(value, f.unit))
			} else {
				fmt.Fprint(&out, " |")
			}
		}
		growth := ""
		if exponent, known := exponent(steps, f.name); known && f.grows {
			growth = fmt.Sprintf("%.2f", exponent)
			if exponent > superlinear {
				fast = append(fast, fmt.Sprintf("%s (%s)", f.name, growth))
			}
		}
		fmt.Fprintf(&out, " %s | %s |\n", growth, f.target)
	}
	if len(fast) > 0 {
		fmt.Fprintf(&out, "\nGrows faster than the cluster, exponent above %.1f: %s\n", superlinear, strings.Join(fast, ", "))
	}
	return out.String()
}

// exponent is that of the growth of a figure between the last two steps: 1 is linear.
func exponent(steps []*step, name string) (float64, bool) {
	if len(steps) < 2 {
		return 0, false
	}
	before, last := steps[len(steps)-2], steps[len(steps)-1]
	a, known := before.value(name)
	b, too := last.value(name)
	if !known || !too || a <= 0 || b <= 0 || before.nodes == last.nodes {
		return 0, false
	}
	return math.Log(b/a) / math.Log(float64(last.nodes)/float64(before.nodes)), true
}

func form(value float64, unit string) string {
	digits := 0
	switch {
	case math.Abs(value) < 10:
		digits = 2
	case math.Abs(value) < 100:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, value)
	if unit != "" {
		text += " " + unit
	}
	return text
}
