package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/text/natural"
)

// maxFindings is how many findings and nodes a page shows.
const maxFindings = 200

// findingsView are the findings of the agents of all nodes.
type findingsView struct {
	eventLog
	// Nodes are the nodes with the most findings.
	Nodes []nodeFindings
}

// nodeFindings is how many findings a node has.
type nodeFindings struct {
	Node  string
	Count int
}

func (s *Server) findingsPage(ctx context.Context, _ *http.Request, _ *shown) (page, error) {
	return page{Template: "findings", Title: "Findings", Data: s.newFindingsView(ctx)}, nil
}

// newFindingsView reads the events of all namespaces by which agents report findings, the newest first.
func (s *Server) newFindingsView(ctx context.Context) (v findingsView) {
	if s.options.NodeEvents == nil {
		return v
	}
	v.Asked = true
	all, more, err := s.options.NodeEvents(ctx)
	switch {
	case apierrors.IsForbidden(err):
		v.Error = "You are not allowed to list the events of all namespaces. The page of a device has the findings of its node in the namespaces that you may read."
		return v
	case err != nil:
		v.Error = "The events cannot be read: " + err.Error()
		return v
	case more:
		v.Error = "There are more events than were read: this is a part of the findings."
	}
	v.Rows = slices.DeleteFunc(eventRows(all), func(e eventRow) bool { return !slices.Contains(s.options.Findings, e.Reason) })
	counts := map[string]int{}
	for _, row := range v.Rows {
		counts[row.Node]++
	}
	for node, count := range counts {
		v.Nodes = append(v.Nodes, nodeFindings{node, count})
	}
	slices.SortFunc(v.Nodes, func(a, b nodeFindings) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), natural.Compare(a.Node, b.Node))
	})
	v.Nodes = v.Nodes[:min(len(v.Nodes), maxFindings)]
	v.cut(maxFindings)
	return v
}
