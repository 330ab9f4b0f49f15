package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// A capacityView is the data of the page of capacities.
type capacityView struct {
	By      string
	Bys     []string
	Report  capacity.Inventory
	Rows    []capacityRow
	Total   capacityRow
	Command string
}

// A capacityRow is a row with the parts of a bar.
type capacityRow struct {
	capacity.Row
	Parts []part
}

// A part of a bar begins at From and is Width wide, in hundredths of the bar.
type part struct {
	Class, Name string
	Count       int
	From, Width float64
}

// defaultBy is what the rows are if nothing is asked for.
const defaultBy = string(capacity.ByClass)

func (s *Server) capacityPage(ctx context.Context, r *http.Request, now *shown) (page, error) {
	by := cmp.Or(r.FormValue("by"), defaultBy)
	if !slices.Contains(capacity.Bys(), by) {
		return page{}, fmt.Errorf("%w: by: must be one of %v", errInput, capacity.Bys())
	}
	v, err := s.newCapacityView(ctx, now.fleet, by)
	return page{Template: "capacity", Title: "Capacity", Data: v}, err
}

// maxCapacityRows is how many rows a page has.
const maxCapacityRows = 500

func (s *Server) newCapacityView(ctx context.Context, f *fleet.Fleet, by string) (capacityView, error) {
	v := capacityView{By: by, Bys: capacity.Bys(), Command: s.command("capacity", "--by", by)}
	if f.Input.View == nil {
		return v, nil
	}
	var err error
	if v.Report, err = f.Input.Capacity().Report(ctx, capacity.Scope{}, capacity.By(by)); err != nil {
		return v, err
	}
	if rest := len(v.Report.Rows) - maxCapacityRows; rest > 0 {
		v.Report.Rows = v.Report.Rows[:maxCapacityRows]
		v.Report.Notes = append(v.Report.Notes, fmt.Sprintf("%d more rows: run the command", rest))
	}
	for _, row := range v.Report.Rows {
		v.Rows = append(v.Rows, capacityRow{row, partsOf(row)})
	}
	v.Total = capacityRow{v.Report.Total, partsOf(v.Report.Total)}
	return v, nil
}

func partsOf(r capacity.Row) (parts []part) {
	from := 0.0
	for _, p := range []part{{Class: "held", Name: "held", Count: r.Held}, {Class: "tainted", Name: "tainted", Count: r.Tainted}, {Class: "unreachable", Name: "unreachable", Count: r.Unreachable},
		{Class: "away", Name: "patched away", Count: r.PatchedAway}, {Class: "excluded", Name: "excluded", Count: r.Excluded}, {Class: "unknown", Name: "unknown", Count: r.Unknown}, {Class: "free", Name: "allocatable", Count: r.Allocatable}} {
		if p.Count == 0 || r.Total == 0 {
			continue
		}
		p.From, p.Width = from, 100*float64(p.Count)/float64(r.Total)
		from += p.Width
		parts = append(parts, p)
	}
	return parts
}
