package nodeagent

import (
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// Holdings are an Observation for people and programs: dra-steward node holdings -o json.
type Holdings struct {
	Node string    `json:"node"`
	At   time.Time `json:"at"`
	// Stale is true while the kubelet has just started and does not list its pods yet.
	Stale    bool         `json:"stale,omitempty"`
	Holdings []HeldDevice `json:"holdings"`
}

// A HeldDevice is a device with its holder, taints and attributes.
type HeldDevice struct {
	podresources.Holding
	// Attributes are those of --attributes, by the names that it has.
	Attributes map[string]string `json:"attributes,omitempty"`
	Taints     []TaintOfHolder   `json:"taints,omitempty"`
}

// A TaintOfHolder is a taint in kubectl's notation, and whether the request tolerates it now.
type TaintOfHolder struct {
	Taint     string `json:"taint"`
	Tolerated bool   `json:"tolerated"`
}

// Report returns the holdings of an observation of a node.
func (o *Observation) Report(node string) Holdings {
	report := Holdings{Node: node, At: o.At.UTC().Truncate(time.Second), Stale: o.Stale, Holdings: []HeldDevice{}}
	for _, h := range o.Holdings {
		held := HeldDevice{Holding: h}
		if !ofPlugin(h) {
			held.Attributes = o.Attributes[deviceOf(h)]
		}
		report.Holdings = append(report.Holdings, held)
	}
	for _, t := range o.Taints {
		held, taint := &report.Holdings[t.of], TaintOfHolder{toleration.TaintText(t.Taint), t.Tolerated}
		if !slices.Contains(held.Taints, taint) {
			held.Taints = append(held.Taints, taint)
		}
	}
	return report
}
