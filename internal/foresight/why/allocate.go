package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// verdict asks the allocator of kube-scheduler, node by node.
func (q *question) verdict(ctx context.Context, report *Explanation) error {
	report.Verdict = Unsatisfiable
	for _, r := range report.Requests {
		// The scheduler does not look at devices before all classes exist.
		if r.Reason == ClassNotFound {
			return nil
		}
	}
	found, err := q.allocate(ctx)
	if err != nil {
		return err
	}
	if found.results != nil {
		report.Verdict, report.Node = Allocatable, found.node
		return nil
	}
	report.Message = found.message
	if strings.HasPrefix(report.Message, placement.ErrSlow.Error()) {
		return nil
	}
	if len(q.others) > 0 && report.Message == "" {
		alone := *q
		alone.others = nil
		if found, err = alone.allocate(ctx); err != nil {
			return err
		}
		if found.results != nil {
			report.Message = fmt.Sprintf("alone, it could be allocated on %s, but not together with the pod's other claims: %s", found.node, names(q.others))
			return nil
		}
	}
	q.together(report)
	return nil
}

// offered are the slices for the allocator, which is that of a newer kube-scheduler: to
// it the pools of which slices are missing look complete, if that of the cluster does not
// mind, and counter sets are in slices of their own.
func (q *question) offered() []*resourceapi.ResourceSlice {
	if !q.cluster.IncompletePools {
		return q.slices
	}
	for _, claim := range append([]*resourceapi.ResourceClaim{q.claim}, q.others...) {
		if slices.ContainsFunc(requests(claim), func(r asked) bool { return !q.givesAway(r) }) {
			return placement.Separated(q.slices)
		}
	}
	return placement.Separated(placement.Completed(q.slices, q.pools))
}

// An allocation is the answer of the allocator: a node with the devices of each claim, or
// the reason why there is no node.
type allocation struct {
	node, message string
	results       []resourceapi.AllocationResult
}

// allocate looks for a node on which the claim and the others can be allocated.
func (q *question) allocate(ctx context.Context) (found allocation, _ error) {
	allocator := placement.Allocator{
		Features: q.features, State: placement.Allocated(slices.Values(q.cluster.Claims), q.features), Classes: placement.Classes{View: q.cluster.View},
		Slices: placement.ByNode(q.offered()), Cache: q.cache,
	}
	claims := append([]*resourceapi.ResourceClaim{q.claim}, q.others...)
	for _, node := range q.nodes {
		results, message, err := allocator.On(ctx, node, claims)
		switch {
		case errors.Is(err, placement.ErrStops), errors.Is(err, placement.ErrSlow):
			found.message = err.Error()
			return found, nil
		case err != nil:
			return found, err
		case results != nil:
			return allocation{node: node.Name, results: results}, nil
		case message != "":
			found.message = message
		}
	}
	return found, nil
}

func names(claims []*resourceapi.ResourceClaim) string {
	var all []string
	for _, claim := range claims {
		all = append(all, claim.Name)
	}
	return strings.Join(all, ", ")
}

// together explains a request for which enough devices are suitable each by itself.
func (q *question) together(report *Explanation) {
	if len(q.nodes) == 0 {
		report.Message = "the pod cannot run on any node"
		return
	}
	for _, r := range report.Requests {
		if r.Reason != "" {
			return
		}
	}
	for i := range report.Requests {
		report.Requests[i].Reason = Together
		report.Requests[i].Message = "enough devices are suitable one by one, but not together: constraints, shared counters, capacities or other requests exclude it"
	}
}
