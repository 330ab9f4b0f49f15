package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/internal/report"
)

// maxReportRows is how many rows of a table of the report, and maxNamed how many objects of a row, a
// page shows.
const (
	maxReportRows = 200
	maxNamed      = 10
)

// A reportView is the data of the page of the report.
type reportView struct {
	result[report.Report]
	// Able is false if no report can be made.
	Able    bool
	Problem string
	Command string
	// Steps are those after that of today.
	Steps []stepView
	// MoreHolders and MoreTaints are left out.
	MoreHolders, MoreTaints int
}

// A stepView is what one step changes.
type stepView struct {
	Mode    string
	Codes   []codeView
	Evicted []report.Eviction
	More    int
}

// A codeView is what one policy, rule or default does on a step.
type codeView struct {
	Does, Code    string
	Objects, Seen int
	Named         []string
}

// reportPage shows the report that was made last. It makes one if the address asks for it.
func (s *Server) reportPage(ctx context.Context, r *http.Request, _ *shown) (page, error) {
	v := s.newReportView()
	if v.Able {
		asked := r.FormValue("make") == "yes"
		v.result = s.report.get(ctx, s.options.Now, func(result[report.Report]) bool { return asked }, s.options.Report)
	}
	v.fill()
	return page{Template: "report", Title: "Report", Data: v}, nil
}

func (s *Server) newReportView() reportView {
	return reportView{Able: s.options.Report != nil, Command: s.command("report", "-n", s.options.Release)}
}

func (v *reportView) fill() {
	if v.Err != nil {
		v.Problem = v.Err.Error()
	}
	if len(v.Value.Steps) == 0 {
		return
	}
	for _, step := range v.Value.Steps[1:] {
		s := stepView{Mode: string(step.Mode), Evicted: step.Evicted}
		for _, part := range []struct {
			does  string
			codes []report.Code
		}{{"refuses", step.Refused.Codes}, {"warns", step.Warned.Codes}, {"fills in", step.Defaulted.Codes}} {
			for _, code := range part.codes {
				s.Codes = append(s.Codes, codeView{part.does, code.Code, len(code.Objects), code.Seen, code.Objects[:min(len(code.Objects), maxNamed)]})
			}
		}
		s.More = max(0, len(s.Evicted)-maxReportRows)
		s.Evicted = s.Evicted[:len(s.Evicted)-s.More]
		v.Steps = append(v.Steps, s)
	}
	v.MoreHolders, v.MoreTaints = max(0, len(v.Value.Holders)-maxReportRows), max(0, len(v.Value.Taints)-maxReportRows)
	v.Value.Holders = v.Value.Holders[:len(v.Value.Holders)-v.MoreHolders]
	v.Value.Taints = v.Value.Taints[:len(v.Value.Taints)-v.MoreTaints]
}

// policiesAge is how old what the page of policies shows may be.
const policiesAge = 15 * time.Second

// A policiesView is the data of the page of policies.
type policiesView struct {
	result[report.Policies]
	// Able is false if policies cannot be read.
	Able    bool
	Problem string
	Command string
	Counts  []countView
	// Since is when counting began.
	Since  time.Time
	Events eventLog
}

// A countView is what a policy, rule or default has found.
type countView struct {
	Code string
	// All is since the replicas of the webhook started, New since the page was opened first.
	All, New int
	Default  bool
}

// policiesPage shows the policies of the release. It reads them again if what it has is old.
func (s *Server) policiesPage(ctx context.Context, _ *http.Request, _ *shown) (page, error) {
	v := s.newPoliciesView()
	if v.Able {
		old := func(last result[report.Policies]) bool {
			return last.Ended.IsZero() || s.options.Now().Sub(last.Ended) > policiesAge
		}
		v.result = s.policies.get(ctx, s.options.Now, old, s.options.Policies)
	}
	if v.Err == nil && !v.Ended.IsZero() {
		v.fill(s.counted(v.Value, v.Ended))
	} else if v.Err != nil {
		v.Problem = v.Err.Error()
	}
	return page{Template: "policies", Title: "Policies", Data: v}, nil
}

func (s *Server) newPoliciesView() policiesView {
	return policiesView{Able: s.options.Policies != nil, Command: s.command("policy", "list")}
}

// A baseline is what the webhook had counted when the page of policies was opened first.
type baseline struct {
	seen  report.Seen
	since time.Time
}

// counted returns the counters that others are compared with.
func (s *Server) counted(p report.Policies, at time.Time) baseline {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.opened == nil && p.Seen.Replicas > 0 {
		s.opened = &baseline{p.Seen, at}
	}
	if s.opened == nil {
		return baseline{since: at}
	}
	return *s.opened
}

// fill compares counters. Those of a replica that has started again are less than before: then all of
// them are new.
func (v *policiesView) fill(before baseline) {
	v.Since = before.since
	add := func(now, then map[string]int, isDefault bool) {
		for _, code := range slices.Sorted(maps.Keys(now)) {
			c := countView{Code: code, All: now[code], New: now[code] - then[code], Default: isDefault}
			if c.New < 0 {
				c.New = c.All
			}
			if c.All > 0 {
				v.Counts = append(v.Counts, c)
			}
		}
	}
	add(v.Value.Seen.Findings, before.seen.Findings, false)
	add(v.Value.Seen.Defaults, before.seen.Defaults, true)
	slices.SortStableFunc(v.Counts, func(a, b countView) int { return cmp.Or(cmp.Compare(b.New, a.New), cmp.Compare(b.All, a.All)) })
	v.Counts = v.Counts[:min(len(v.Counts), maxReportRows)]
	v.Events.Asked = true
	v.Events.Rows = eventRows(v.Value.Events)
	v.Events.More = max(0, len(v.Events.Rows)-maxHappened)
	v.Events.Rows = v.Events.Rows[:len(v.Events.Rows)-v.Events.More]
}

// parameterText is a parameter of a policy.
func parameterText(p report.Parameter) string { return fmt.Sprintf("%s = %s", p.Name, p.Value) }
