package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// maxDevicePages is how many devices have a page of their own in an export.
const maxDevicePages = 2000

// ExportOptions say where pages are written to.
type ExportOptions struct {
	// Folder must be empty or not exist.
	Folder string
	// Group is what the map is grouped by, see [fleet.Grouping].
	Group string
}

// An Export is what was written.
type Export struct {
	// Index is the name of the first page, Files the number of files, Left the number of devices
	// without a page, LeftClaims that of claims and pods.
	Index                   string
	Files, Left, LeftClaims int
}

// Export writes the pages as files. They show what is shown now, with the predictions that can be made
// in a minute, the events and histories that can be read in another, the policies, and a report.
func (s *Server) Export(ctx context.Context, o ExportOptions) (Export, error) {
	e := &exporter{server: s, now: s.shown.Load(), folder: o.Folder, group: fleet.Grouping(o.Group), known: map[string]bool{}}
	if err := e.begin(); err != nil {
		return Export{}, err
	}
	e.readPredictions(ctx)
	e.plan()
	var err error
	if e.pages, err = newRenderer(links{files: e.known}); err != nil {
		return Export{}, err
	}
	for _, step := range []func(context.Context) error{e.assets, e.maps, e.others, e.ladder, e.devices, e.claims, e.drains} {
		if err := step(ctx); err != nil {
			return Export{}, err
		}
	}
	return Export{Index: filepath.Join(o.Folder, "index.html"), Files: e.written, Left: e.left, LeftClaims: e.leftClaims}, nil
}

// An exporter writes one export.
type exporter struct {
	server        *Server
	now           *shown
	folder, group string
	// known are the addresses that become files.
	known map[string]bool
	pages *renderer
	// own are the devices with a page, by their indexes.
	own                       []int
	written, left, leftClaims int
	predictions
	records
}

// begin makes the folder.
func (e *exporter) begin() error {
	entries, err := os.ReadDir(e.folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(e.folder, 0o755)
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: name a folder that is, or that does not exist", e.folder)
	}
	return nil
}

// plan decides which pages there are: devices that need a look come first.
func (e *exporter) plan() {
	f := e.now.fleet
	var plain []int
	for i := range f.Devices {
		if f.Devices[i].State.Mark != fleet.None {
			e.own = append(e.own, i)
		} else {
			plain = append(plain, i)
		}
	}
	e.own = append(e.own, plain...)
	e.left = max(0, len(e.own)-maxDevicePages)
	e.own = e.own[:len(e.own)-e.left]
	server := links{}
	for _, address := range []string{server.to(""), server.to("drains"), server.to("taints"), server.to("findings")} {
		e.known[address] = true
	}
	for page := 2; page <= e.tables(); page++ {
		e.known[e.table(page)] = true
	}
	for _, by := range capacity.Bys() {
		e.known[server.to("capacity", "by", by)] = true
	}
	e.known[server.to("capacity")] = true
	e.known[server.to("policies")] = e.server.options.Policies != nil
	e.known[server.to("report")] = e.server.options.Report != nil
	for _, i := range e.own {
		e.known[server.device(f.Devices[i].ID).URL] = true
	}
	for _, d := range f.Input.Drains {
		e.known[server.drain(d.Name).URL] = true
	}
	e.planClaims()
}

// tables is how many pages the table of devices has.
func (e *exporter) tables() int { return max(1, (len(e.now.fleet.Devices)+tableRows-1)/tableRows) }

// table is the address of a page of the table.
func (e *exporter) table(page int) string {
	if page == 1 {
		return links{}.to("")
	}
	return links{}.to("", "page", strconv.Itoa(page))
}

// assets writes styles, scripts and icons.
func (e *exporter) assets(context.Context) error {
	return fs.WalkDir(e.server.static, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(e.server.static, name)
		if err != nil {
			return err
		}
		e.written++
		return os.WriteFile(filepath.Join(e.folder, name), content, 0o644)
	})
}

// page writes one page.
func (e *exporter) page(ctx context.Context, address string, p page) error {
	if err := ctx.Err(); err != nil || address == "" { // names of the API server are not as long
		return err
	}
	p = e.server.frame(p, e.now)
	p.Live = false
	file, err := os.Create(filepath.Join(e.folder, fileOf(address)))
	if err != nil {
		return err
	}
	e.written++
	return errors.Join(e.pages.write(file, p), file.Close())
}

// maps writes the map, and the pages of its table.
func (e *exporter) maps(ctx context.Context) error {
	f := e.now.fleet
	all := f.Select(fleet.Query{})
	for number := 1; number <= e.tables(); number++ {
		v := newMapView(f, "", e.group, all, number)
		if number == 1 { // only this page has the map
			v.Map = newMapData(f, all, e.group)
			v.Map.Pages = make([]string, len(f.Devices))
			for i := range f.Devices {
				v.Map.Pages[i] = e.pages.links.device(f.Devices[i].ID).URL
			}
		} else {
			v.Map = newMapData(f, nil, e.group)
			v.Previous = fileOf(e.table(number - 1))
		}
		if number < e.tables() {
			v.Next = fileOf(e.table(number + 1))
		}
		if err := e.page(ctx, e.table(number), page{Template: "map", Title: "Map", Data: v}); err != nil {
			return err
		}
	}
	return nil
}

// others writes the lists.
func (e *exporter) others(ctx context.Context) error {
	f := e.now.fleet
	if err := e.page(ctx, "/drains", page{Template: "drains", Title: "Drains", Data: newDrainsView(e.server, f)}); err != nil {
		return err
	}
	if err := e.page(ctx, "/taints", page{Template: "taints", Title: "Taints and patches", Data: newTaintsView(f)}); err != nil {
		return err
	}
	if err := e.page(ctx, "/findings", page{Template: "findings", Title: "Findings", Data: e.server.newFindingsView(ctx)}); err != nil {
		return err
	}
	for _, by := range append([]string{""}, capacity.Bys()...) {
		address := links{}.to("capacity", "by", by)
		v, err := e.server.newCapacityView(ctx, f, cmp.Or(by, defaultBy))
		if err == nil {
			err = e.page(ctx, address, page{Template: "capacity", Title: "Capacity", Data: v})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// devices writes the pages of devices.
func (e *exporter) devices(ctx context.Context) error {
	for _, i := range e.own {
		d := &e.now.fleet.Devices[i]
		v := e.server.newDeviceView(e.now.fleet, d)
		v.Previews = e.previews(ctx, d.ID)
		v.setHealth(e.in.Pods)
		v.Findings, v.History = e.foundOn(ctx, v.Holders), e.historyOf(ctx, d.ID)
		if err := e.page(ctx, links{}.device(d.ID).URL, page{Template: "device", Title: d.ID.Device, Data: v}); err != nil {
			return err
		}
	}
	return nil
}

// drains writes the pages of drains.
func (e *exporter) drains(ctx context.Context) error {
	for _, d := range e.now.fleet.Input.Drains {
		v := e.server.newDrainView(e.now.fleet, d)
		if err := e.page(ctx, links{}.drain(d.Name).URL, page{Template: "drain", Title: d.Name, Data: v}); err != nil {
			return err
		}
	}
	return nil
}
