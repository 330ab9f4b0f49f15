package capacity

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A table is a report as text.
type table struct {
	capacity.Inventory
	wide, headers bool
	// gates adds the source of the feature gates.
	gates bool
}

// A column of the table. Columns that may be left out are, where all their cells are zero.
type column struct {
	header string
	cell   func(capacity.Row) string
	always bool
}

func number(of func(capacity.Row) int) func(capacity.Row) string {
	return func(r capacity.Row) string { return strconv.Itoa(of(r)) }
}

func columns() []column {
	all := []column{
		{"TOTAL", number(func(r capacity.Row) int { return r.Total }), true},
		{"ALLOCATABLE", allocatable, true},
		{"HELD", number(func(r capacity.Row) int { return r.Held }), true},
		{"TAINTED", number(func(r capacity.Row) int { return r.Tainted }), true},
		{"PATCHED AWAY", number(func(r capacity.Row) int { return r.PatchedAway }), false},
		{"EXCLUDED", number(func(r capacity.Row) int { return r.Excluded }), false},
		{"UNREACHABLE", number(func(r capacity.Row) int { return r.Unreachable }), true},
		{"UNKNOWN", number(func(r capacity.Row) int { return r.Unknown }), false},
		{"SHARES HELD", func(r capacity.Row) string { return shares(r, func(s capacity.Shares) int { return s.Held }) }, false},
		{"SHARES LEFT", sharesLeft, false},
	}
	for i, size := range capacity.Sizes() {
		all = append(all, column{fmt.Sprintf("FIT %d", size), func(r capacity.Row) string { return fit(r.Fits, i) }, true})
	}
	return all
}

func allocatable(r capacity.Row) string {
	if r.UpperBound {
		return "<=" + strconv.Itoa(r.Allocatable)
	}
	return strconv.Itoa(r.Allocatable)
}

func shares(r capacity.Row, of func(capacity.Shares) int) string {
	if r.Shares == nil {
		return "0"
	}
	return strconv.Itoa(of(*r.Shares))
}

func sharesLeft(r capacity.Row) string {
	if r.Shares != nil && r.Shares.Unlimited > 0 {
		return "unlimited"
	}
	return shares(r, func(s capacity.Shares) int { return s.Room })
}

func fit(all []capacity.Fit, i int) string {
	switch {
	case all == nil: // devices of several drivers
		return "-"
	case all[i].Unknown:
		return "?"
	case all[i].Unlimited:
		return "unlimited"
	case all[i].Exact:
		return strconv.Itoa(all[i].Claims)
	}
	return "<=" + strconv.Itoa(all[i].Claims)
}

// write prints the rows, the total and what the asker has to know of them.
func (t table) write(out io.Writer) error {
	if t.By == capacity.ByNamespace {
		return t.writeHolders(out)
	}
	rows := t.Rows
	if t.headers && len(rows) != 1 {
		total := t.Total
		total.Name = "total"
		rows = append(slices.Clone(rows), total)
	}
	shown := slices.DeleteFunc(columns(), func(c column) bool {
		return !c.always && !t.wide && !slices.ContainsFunc(append(rows, t.Total), func(r capacity.Row) bool { return c.cell(r) != "0" })
	})
	w := printable.NewTable(out, 3)
	line := func(name string, cell func(column) string) {
		cells := []string{name}
		for _, c := range shown {
			cells = append(cells, cell(c))
		}
		printable.Printf(w, "%s\n", printable.Cells(cells))
	}
	if t.headers {
		line(strings.ToUpper(string(t.By)), func(c column) string { return c.header })
	}
	for _, row := range rows {
		line(row.Name, func(c column) string { return c.cell(row) })
	}
	if err := w.Flush(); err != nil || !t.headers {
		return err
	}
	return t.writeDetails(out)
}

// namespaces is how many holders the last line names.
const namespaces = 5

// writeDetails prints the reasons, the holders and the notes.
func (t table) writeDetails(out io.Writer) error {
	var lines []string
	if text := counts(t.Total.Reasons); text != "" {
		lines = append(lines, "unreachable: "+text)
	}
	if text := counts(t.Total.Effects); text != "" {
		lines = append(lines, "tainted: "+text)
	}
	var held []string
	for i, h := range t.Holders {
		if i == namespaces && !t.wide {
			held = append(held, fmt.Sprintf("%d other namespaces", len(t.Holders)-i))
			break
		}
		held = append(held, h.Namespace+" "+holds(h))
	}
	if len(held) > 0 {
		lines = append(lines, "held by: "+strings.Join(held, ", "))
	}
	if t.Unpublished > 0 {
		lines = append(lines, plural.Of(t.Unpublished, "device")+" allocated that no ResourceSlice has")
	}
	if t.TaintedMinutes != nil {
		lines = append(lines, "taints took "+plural.Of(*t.TaintedMinutes, "device-minute")+" in the last 24 hours")
	}
	for _, note := range t.Notes {
		lines = append(lines, "note: "+note)
	}
	if t.gates {
		lines = append(lines, "feature gates: "+t.FeatureGates.Source)
	}
	for _, line := range lines {
		if _, err := printable.Printf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

func holds(h capacity.Holder) string {
	if h.Shares == 0 {
		return strconv.Itoa(h.Devices)
	}
	return strings.TrimPrefix(fmt.Sprintf("%d + %s", h.Devices, plural.Of(h.Shares, "share")), "0 + ")
}

// counts lists numbers by name, the largest first.
func counts[K ~string](all map[K]int) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b K) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s %d", name, all[name]))
	}
	return strings.Join(parts, ", ")
}

func (t table) writeHolders(out io.Writer) error {
	w := printable.NewTable(out, 3)
	if t.headers {
		printable.Printf(w, "NAMESPACE\tCLAIMS\tDEVICES\tSHARES\n")
	}
	for _, h := range t.Holders {
		printable.Printf(w, "%s\t%d\t%d\t%d\n", h.Namespace, h.Claims, h.Devices, h.Shares)
	}
	if err := w.Flush(); err != nil || !t.headers {
		return err
	}
	t.Holders = nil
	return t.writeDetails(out)
}
