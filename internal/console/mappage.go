package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
)

// tableRows is how many devices a page of the table has.
const tableRows = 100

// A mapView is the data of the page with the map.
type mapView struct {
	Query, Group string
	Groupings    []string
	// Selected is the number of devices that the query selects, Rows are those of this page of the
	// table, by their indexes.
	Selected    int
	Rows        []int
	Page, Pages int
	// Previous and Next are addresses, empty for none.
	Previous, Next string
	Legend         []legend
	Map            mapData
	Error          string
}

// A legend is a line that explains a state and counts its devices.
type legend struct {
	Code  string
	Name  string
	Means string
	Count int
}

// A mapData is what the script draws. Names are referred to by their index.
type mapData struct {
	Revision uint64 `json:"revision"`
	// Filtered is true if a query leaves devices out.
	Filtered bool       `json:"filtered"`
	Group    string     `json:"group"`
	Live     bool       `json:"live"`
	Selected int        `json:"selected"`
	Names    []string   `json:"names"`
	Pages    []string   `json:"pages,omitempty"`
	Groups   []mapGroup `json:"groups"`
}

type mapGroup struct {
	Name    string   `json:"name"`
	Devices int      `json:"devices"`
	Rows    []mapRow `json:"rows"`
}

// A mapRow is the devices of a node: their indexes, their codes, and driver, pool and name of each.
type mapRow struct {
	Node    int    `json:"n"`
	Devices []int  `json:"i"`
	Codes   string `json:"c"`
	Parts   []int  `json:"p"`
}

// asked reads what a map shows from an address. A query that cannot be read selects nothing.
func asked(r *http.Request, f *fleet.Fleet) (query, group string, selected []int, err error) {
	query, group = r.FormValue("q"), fleet.Grouping(r.FormValue("group"))
	q, err := fleet.ParseQuery(query)
	if err != nil {
		return query[:min(len(query), fleet.MaxQuery)], group, nil, err
	}
	return query, group, f.Select(q), nil
}

func (s *Server) mapPage(_ context.Context, r *http.Request, now *shown) (page, error) {
	query, group, selected, err := asked(r, now.fleet)
	number, _ := strconv.Atoi(r.FormValue("page"))
	v := newMapView(now.fleet, query, group, selected, number)
	v.Map = newMapData(now.fleet, selected, group)
	v.Map.Revision, v.Map.Filtered, v.Map.Live = now.revision, query != "", true
	if err != nil {
		v.Error = err.Error()
	}
	if v.Page > 1 {
		v.Previous = s.live.links.to("", "q", query, "group", group, "page", strconv.Itoa(v.Page-1))
	}
	if v.Page < v.Pages {
		v.Next = s.live.links.to("", "q", query, "group", group, "page", strconv.Itoa(v.Page+1))
	}
	return page{Template: "map", Title: "Map", Data: v}, nil
}

// newMapView is the table of selected devices, without the map. The number of a page of the table that does not exist is taken
// for the nearest.
func newMapView(f *fleet.Fleet, query, group string, selected []int, number int) mapView {
	v := mapView{Query: query, Group: group, Groupings: fleet.Groupings(), Selected: len(selected), Legend: legendOf(f)}
	v.Pages = max(1, (len(selected)+tableRows-1)/tableRows)
	v.Page = min(max(number, 1), v.Pages)
	v.Rows = selected[(v.Page-1)*tableRows : min(v.Page*tableRows, len(selected))]
	return v
}

func newMapData(f *fleet.Fleet, selected []int, group string) mapData {
	m := mapData{Group: group, Selected: len(selected), Names: []string{}, Groups: []mapGroup{}}
	known := map[string]int{}
	name := func(text string) int {
		at, is := known[text]
		if !is {
			at = len(m.Names)
			known[text] = at
			m.Names = append(m.Names, plain(text))
		}
		return at
	}
	for _, g := range f.Group(selected, group) {
		to := mapGroup{Name: plain(g.Name), Devices: g.Devices, Rows: make([]mapRow, 0, len(g.Rows))}
		for _, row := range g.Rows {
			r := mapRow{Node: name(row.Node), Devices: row.Devices, Parts: make([]int, 0, 3*len(row.Devices))}
			codes := make([]byte, len(row.Devices))
			for i, at := range row.Devices {
				id := f.Devices[at].ID
				codes[i] = f.Codes[at]
				r.Parts = append(r.Parts, name(id.Driver), name(id.Pool), name(id.Device))
			}
			r.Codes = string(codes)
			to.Rows = append(to.Rows, r)
		}
		m.Groups = append(m.Groups, to)
	}
	return m
}

// mapJSON is the map without the page around it, for a page whose devices have changed.
func (s *Server) mapJSON(w http.ResponseWriter, r *http.Request) {
	select {
	case s.render <- struct{}{}:
		defer func() { <-s.render }()
	case <-r.Context().Done():
		return
	}
	now := s.shown.Load()
	query, group, selected, err := asked(r, now.fleet)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := newMapData(now.fleet, selected, group)
	m.Revision, m.Filtered, m.Live = now.revision, query != "", true
	w.Header().Set("Content-Type", "application/json")
	if json.NewEncoder(w).Encode(m) != nil {
		return // the page is gone
	}
}

// legendOf explains the states, and counts their devices.
func legendOf(f *fleet.Fleet) []legend {
	means := map[fleet.Mark]string{
		fleet.Sick:        "its driver reports it as broken in the status of a claim",
		fleet.Draining:    "a DeviceDrain that has not ended has it",
		fleet.NoExecute:   "a taint with the effect NoExecute evicts pods from it",
		fleet.NoSchedule:  "a taint with the effect NoSchedule keeps new claims away",
		fleet.Unreachable: "its pool is incomplete or invalid, or its node is missing, not ready or unschedulable",
		fleet.PatchedAway: "a ResourceSlicePatch takes it out of every class",
		fleet.Excluded:    "the counters that it shares with other devices do not suffice",
		fleet.Patched:     "a ResourceSlicePatch changes its attributes or capacities",
	}
	code := func(fill fleet.Fill, mark fleet.Mark) string {
		return string(rune(fleet.State{Fill: fill, Mark: mark}.Code()))
	}
	lines := []legend{
		{code(fleet.Free, fleet.None), "free", "no claim has it", f.Totals.Free},
		{code(fleet.Held, fleet.None), "held", "a claim has it, or a share of it", f.Totals.Held},
	}
	if f.Partial || f.Totals.Unknown > 0 {
		lines = append(lines, legend{code(fleet.Unknown, fleet.None), "unknown", "you are not allowed to read all claims: it can be held", f.Totals.Unknown})
	}
	for _, mark := range fleet.AllMarks() {
		lines = append(lines, legend{code(fleet.Free, mark), mark.String(), means[mark], f.Totals.Marks[mark]})
	}
	return lines
}

// errMissing reports an object that does not exist.
func errMissing(kind, name string, now *shown) error {
	note := ""
	if now.fleet.Partial {
		note = ", or you are not allowed to read it"
	}
	return fmt.Errorf("%w: %s %s does not exist%s", errNotFound, kind, plain(name), note)
}
