package node

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/cdi"
)

type podUID = types.UID

// nodeReport is what node check finds, and its JSON output.
type nodeReport struct {
	Sources []nodeSource `json:"sources,omitempty"`
	IDs     []nodeID     `json:"ids"`
	// Files are problems of specifications and directories, used or not.
	Files  []cdi.Problem `json:"files,omitempty"`
	Failed int           `json:"failed"`
}

type nodeSource struct {
	Name  string `json:"name"`
	Path  string `json:"path,omitempty"`
	State string `json:"state"` // up, absent or off
}

type nodeID struct {
	cdi.Result
	Holders []nodeHolder `json:"holders,omitempty"`
}

// nodeHolder is whom the kubelet has handed an id to.
type nodeHolder struct {
	Source    string   `json:"source"`
	PodUIDs   []podUID `json:"podUIDs,omitempty"`
	Container string   `json:"container,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	Requests  []string `json:"requests,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	Pool      string   `json:"pool,omitempty"`
	Device    string   `json:"device,omitempty"`
	Resource  string   `json:"resource,omitempty"`
	Devices   []string `json:"devices,omitempty"`
}

// use notes that an id is in use, by holder unless that is nil.
func (r *nodeReport) use(id string, holder *nodeHolder) {
	i := slices.IndexFunc(r.IDs, func(n nodeID) bool { return n.ID == id })
	if i < 0 {
		i = len(r.IDs)
		r.IDs = append(r.IDs, nodeID{Result: cdi.Result{ID: id}})
	}
	if holder != nil {
		r.IDs[i].Holders = append(r.IDs[i].Holders, *holder)
	}
}

func (r *nodeReport) check(registry *cdi.Registry) {
	for i := range r.IDs {
		r.IDs[i].Result = registry.Check(r.IDs[i].ID)
		if !r.IDs[i].OK() {
			r.Failed++
		}
	}
	slices.SortFunc(r.IDs, func(a, b nodeID) int { return strings.Compare(a.ID, b.ID) })
	r.Files = registry.Problems()
}

func (r *nodeReport) print(out io.Writer) error {
	var text strings.Builder
	for _, id := range r.IDs {
		if id.OK() {
			fmt.Fprintf(&text, "%s: ok: %s\n", id.ID, id.Spec)
			continue
		}
		for _, problem := range id.Problems {
			fmt.Fprintf(&text, "%s: %s: %s\n", id.ID, problem.Reason, problem.Detail)
		}
		for _, holder := range id.Holders {
			fmt.Fprintf(&text, "  held by %s\n", holder)
		}
	}
	for _, problem := range r.Files {
		fmt.Fprintf(&text, "warning: %s: %s\n", problem.Reason, problem.Detail)
	}
	for _, source := range r.Sources {
		if source.State != "up" {
			fmt.Fprintf(&text, "checkpoint of %s: %s\n", source.Name, strings.TrimSpace(source.State+" "+source.Path))
		}
	}
	fmt.Fprintf(&text, "%d ids checked: %d would not be applied\n", len(r.IDs), r.Failed)
	return printable.Page(out, text.String())
}

// String names the holder of an id, as far as a node can know it: pods by UID.
func (h nodeHolder) String() string {
	var pods []string
	for _, uid := range h.PodUIDs {
		pods = append(pods, string(uid))
	}
	what := fmt.Sprintf("claim %s/%s, device %s/%s/%s", h.Namespace, h.Claim, h.Driver, h.Pool, h.Device)
	if h.Source == "device-plugins" {
		what = fmt.Sprintf("container %s, resource %s, devices %s", h.Container, h.Resource, strings.Join(h.Devices, ", "))
	}
	return "pods " + strings.Join(pods, ", ") + ": " + what
}
