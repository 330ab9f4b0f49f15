package capacity

import (
	"cmp"
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// A Summary is the capacity of all drivers and classes, of bounded size.
type Summary struct {
	// Drivers are those with the most devices. If there are more, the last row adds up the
	// others and has no name.
	Drivers []Row
	// Classes are the oldest ones.
	Classes []Row
	// Omitted is how many classes are not in Classes.
	Omitted int
}

// Summarize counts the devices of all drivers and of the oldest classes, at most that many of
// each. There are fewer classes where they and the devices are more than four million pairs, but
// always one: the time depends on the pairs. Rows of drivers have no Fits.
func (c Cluster) Summarize(ctx context.Context, most int) (Summary, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return Summary{}, err
	}
	chosen, err := s.choose(ctx, Scope{})
	if err != nil {
		return Summary{}, err
	}
	all := foldRows(s.rows(chosen, ByDriver), most)
	classes := slices.SortedFunc(s.View.Classes(), func(a, b *resourceapi.DeviceClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	kept := min(len(classes), most, max(1, maxEvaluations/max(1, len(s.devices))))
	result := Summary{Drivers: all, Omitted: len(classes) - kept}
	for _, class := range classes[:kept] {
		chosen, err := s.choose(ctx, Scope{Class: class.Name})
		if err != nil {
			return Summary{}, err
		}
		row := s.count(chosen)
		row.Name = class.Name
		result.Classes = append(result.Classes, row)
	}
	return result, nil
}

// foldRows adds up all rows but those with the most devices.
func foldRows(rows []Row, most int) []Row {
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.Total, a.Total) })
	kept := min(len(rows), most)
	rest := Row{}
	for _, row := range rows[kept:] {
		rest.Total += row.Total
		for _, state := range States() {
			*rest.of(state) += row.In(state)
		}
	}
	all := slices.Clone(rows[:kept])
	for i := range all {
		all[i].Fits = nil
	}
	if len(rows) > kept {
		all = append(all, rest)
	}
	return all
}
