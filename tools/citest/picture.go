package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// scalePicture is the file with the curves of the results of test/scale.
const scalePicture = "test/results/scale.svg"

// The size of a panel, and where its axes are, in pixels.
const (
	panelWidth, panelHeight = 800.0, 420.0
	left, right             = 60.0, 330.0
	top, bottom             = 40.0, 40.0
	lineHeight              = 15.0
)

// palette has a colour for each line, which are readable on white.
var palette = []string{"#0b5cad", "#b3450c", "#2e7d32", "#7b1fa2", "#00838f", "#c2185b", "#5d4037", "#455a64", "#827717", "#d32f2f"}

// A panel shows figures of one unit, both axes logarithmic.
type panel struct {
	title, unit string
	names       []string
}

// panels are what the picture shows.
var panels = []panel{
	{"Seconds", "s", []string{"webhook: ready", "controller: leads", "a slice of each node at once, without", "a slice of each node at once, with the webhook",
		"devices: wall", "why: wall", "impact: wall", "report: wall", "audit: wall"}},
	{"Most memory in MiB", "MiB", []string{"webhook: memory", "webhook: peak memory, writes included", "controller: peak memory",
		"devices: peak memory", "why: peak memory", "impact: peak memory", "report: peak memory", "audit: peak memory"}},
}

// drawScale returns the picture. Lines end in their names and the exponents of their growth.
func drawScale(root string) (string, error) {
	figures, sizes, err := readScale(root)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12" role="img" aria-label="How time and memory grow with the number of nodes">`+"\n",
		panelWidth, panelHeight*float64(len(panels)))
	fmt.Fprintf(&out, `<rect width="%g" height="%g" fill="white"/>`+"\n", panelWidth, panelHeight*float64(len(panels)))
	for i, p := range panels {
		fmt.Fprintf(&out, `<g transform="translate(0 %g)">`+"\n", panelHeight*float64(i))
		if err := p.draw(&out, figures, sizes); err != nil {
			return "", err
		}
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.String(), nil
}

// A scale maps values to pixels.
type scale struct{ low, high, from, to float64 }

func (s scale) at(value float64) float64 {
	return s.from + (math.Log(value)-math.Log(s.low))/(math.Log(s.high)-math.Log(s.low))*(s.to-s.from)
}

func (p panel) draw(out *strings.Builder, figures []*scaled, sizes []int) error {
	var lines []*scaled
	low, high := math.Inf(1), 0.0
	for _, name := range p.names {
		i := slices.IndexFunc(figures, func(f *scaled) bool { return f.name == name })
		if i < 0 || figures[i].unit != p.unit {
			return fmt.Errorf("test/results/scale.tsv has no figure %q in %s", name, p.unit)
		}
		lines = append(lines, figures[i])
		for _, value := range figures[i].values {
			low, high = min(low, value), max(high, value)
		}
	}
	x := scale{float64(sizes[0]), float64(sizes[len(sizes)-1]), left, panelWidth - right}
	y := scale{low, high, panelHeight - bottom, top}
	fmt.Fprintf(out, `<text x="%g" y="20" font-weight="bold">%s, by the number of nodes</text>`+"\n", left, p.title)
	for _, size := range sizes {
		at := x.at(float64(size))
		fmt.Fprintf(out, `<path d="M%.1f %g V%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle">%d</text>`+"\n", at, top, panelHeight-bottom, at, panelHeight-bottom+18, size)
	}
	for _, mark := range marks(low, high) {
		at := y.at(mark)
		fmt.Fprintf(out, `<path d="M%g %.1f H%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left, at, panelWidth-right, left-6, at+4, mark)
	}
	p.drawLines(out, lines, sizes, x, y)
	return nil
}

func (p panel) drawLines(out *strings.Builder, lines []*scaled, sizes []int, x, y scale) {
	last := sizes[len(sizes)-1]
	slices.SortStableFunc(lines, func(a, b *scaled) int { return int(math.Copysign(1, b.values[last]-a.values[last])) })
	label := math.Inf(-1)
	for i, line := range lines {
		colour := palette[i%len(palette)]
		var points []string
		for _, size := range sizes {
			if value, known := line.values[size]; known {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(float64(size)), y.at(value)))
			}
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		label = max(label+lineHeight, y.at(line.values[last])+4)
		text := line.name
		if exponent, known := line.exponent(); known {
			text += fmt.Sprintf(" (%.1f)", exponent)
		}
		fmt.Fprintf(out, `<text x="%g" y="%.1f" fill="%s">%s</text>`+"\n", panelWidth-right+8, label, colour, html.EscapeString(text))
	}
}

// marks are 1, 2 and 5 times each power of ten between the values.
func marks(low, high float64) (all []float64) {
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, digit := range []float64{1, 2, 5} {
			if mark := digit * math.Pow(10, power); mark >= low && mark <= high {
				all = append(all, mark)
			}
		}
	}
	return all
}
