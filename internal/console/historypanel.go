package console

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// maxEvents is how many events of its history a page of a device shows.
const maxEvents = 64

// A deviceHistory is the history of a device, the newest event first.
type deviceHistory struct {
	Events []history.Event
	// More is how many older events there are, Notes are about what is not known.
	More  int
	Notes []string
	// Error is why there are none.
	Error string
	// Asked is true if the history could be asked for.
	Asked bool
}

// historyOf reads the history of a device.
func (s *Server) historyOf(ctx context.Context, id usage.DeviceID) (p deviceHistory) {
	if s.options.History == nil {
		return p
	}
	p.Asked = true
	record, err := s.options.History(ctx, v1alpha1.DeviceName(id))
	switch {
	case apierrors.IsForbidden(err):
		p.Error = "You are not allowed to read the history, which is in ConfigMaps of namespace " + s.options.Release + "."
	case err != nil:
		p.Error = "The history cannot be read: " + err.Error()
	case record != nil:
		p.Events, p.Notes = record.Timeline(time.Time{}), record.Notes()
		slices.Reverse(p.Events)
		p.More = max(0, len(p.Events)-maxEvents)
		p.Events = p.Events[:len(p.Events)-p.More]
	}
	return p
}
