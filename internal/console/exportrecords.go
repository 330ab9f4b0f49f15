package console

import (
	"context"
	"time"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// recordTime bounds how long an export reads events and histories, which it asks for one by one.
const recordTime = time.Minute

// leftRecords is shown where no time is left for events or a history.
const leftRecords = "Left out, since an export reads events and histories for a minute at most."

// records are what an export reads of single objects.
type records struct {
	until time.Time
}

// more reports whether there is time to read.
func (r *records) more() bool {
	if r.until.IsZero() {
		r.until = time.Now().Add(recordTime)
	}
	return time.Now().Before(r.until)
}

// happenedTo reads the events of an object.
func (e *exporter) happenedTo(ctx context.Context, namespace, kind, name string) eventLog {
	if e.server.options.Events != nil && !e.records.more() {
		return eventLog{Asked: true, Error: leftRecords}
	}
	return e.server.happenedTo(ctx, namespace, kind, name)
}

// foundOn reads the findings about the pods that hold a device.
func (e *exporter) foundOn(ctx context.Context, holders []fleet.Holder) eventLog {
	if e.server.options.Events != nil && len(holders) > 0 && !e.records.more() {
		return eventLog{Asked: true, Error: leftRecords}
	}
	return e.server.found(ctx, holders)
}

// historyOf reads the history of a device.
func (e *exporter) historyOf(ctx context.Context, id usage.DeviceID) deviceHistory {
	if e.server.options.History != nil && !e.records.more() {
		return deviceHistory{Asked: true, Error: leftRecords}
	}
	return e.server.historyOf(ctx, id)
}

// ladder writes the policies and the report, which is made for it.
func (e *exporter) ladder(ctx context.Context) error {
	s := e.server
	if s.options.Policies != nil {
		v := s.newPoliciesView()
		v.result = resultOf(ctx, s.options.Now, s.options.Policies)
		if v.Err == nil {
			v.fill(baseline{since: v.Ended})
		} else {
			v.Problem = v.Err.Error()
		}
		if err := e.page(ctx, links{}.to("policies"), page{Template: "policies", Title: "Policies", Data: v}); err != nil {
			return err
		}
	}
	if s.options.Report == nil {
		return nil
	}
	v := s.newReportView()
	v.result = resultOf(ctx, s.options.Now, s.options.Report)
	v.fill()
	return e.page(ctx, links{}.to("report"), page{Template: "report", Title: "Report", Data: v})
}
