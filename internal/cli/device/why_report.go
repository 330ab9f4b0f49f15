package device

import (
	"cmp"
	"io"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// How much why shows: devices of a line, lines of a reason, and causes next to the first.
const (
	shownDevices = 3
	shownGroups  = 3
	shownCauses  = 2
)

// writeWhy writes the cause why the subject waits and its remedy, and a paragraph for each
// claim with a line for each reason, or in wide for each device.
func writeWhy(out io.Writer, subject string, answer why.Answer, wide bool) error {
	writeCause(out, subject, answer)
	for _, claim := range answer.Claims {
		printable.Printf(out, "claim %s/%s: %s\n", claim.Namespace, claim.Claim, verdict(claim))
		for _, r := range claim.Requests {
			if err := writeRequest(out, r, wide); err != nil {
				return err
			}
		}
		for _, note := range claim.Notes {
			printable.Printf(out, "  note: %s\n", note)
		}
	}
	for _, event := range answer.Events {
		printable.Printf(out, "event of pod %s/%s: %s\n", answer.Namespace, answer.Pod, event)
	}
	if answer.Scheduler != "" {
		printable.Printf(out, "last scheduler message for pod %s/%s: %s\n", answer.Namespace, answer.Pod, answer.Scheduler)
	}
	return nil
}

// writeNames writes the names of the claims that answer is about, as kubectl does.
func writeNames(out io.Writer, answer why.Answer) {
	for _, claim := range answer.Claims {
		if claim.Claim != "" {
			printable.Printf(out, "resourceclaim.%s/%s\n", resourceapi.GroupName, claim.Claim)
		}
	}
}

// writeCause writes the first lines.
func writeCause(out io.Writer, subject string, answer why.Answer) {
	if answer.Cause == nil {
		if len(answer.Claims) == 0 {
			printable.Printf(out, "%s: uses no claim\n", subject)
		}
		return
	}
	printable.Printf(out, "%s: %s\n", subject, answer.Cause.Message)
	begin := "to fix it:"
	if answer.Cause.Partial() {
		begin = "no single change suffices; one of them:"
	}
	switch {
	case answer.Cause.Command != "":
		printable.Printf(out, "  %s %s: %s\n", begin, answer.Cause.Remedy, answer.Cause.Command)
	case answer.Cause.Remedy != "":
		printable.Printf(out, "  %s %s\n", begin, answer.Cause.Remedy)
	}
	for _, other := range answer.OtherCauses[:min(len(answer.OtherCauses), shownCauses)] {
		if other.Message != answer.Cause.Message {
			printable.Printf(out, "  also: %s\n", other.Message)
		}
	}
}

func verdict(r why.Explanation) string {
	text := map[why.Verdict]string{
		why.Allocated:     "allocated",
		why.Allocatable:   "suitable devices are free on " + r.Node,
		why.Unsatisfiable: "cannot be allocated",
		why.NotMade:       "does not exist (NotMade)",
	}[r.Verdict]
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func writeRequest(out io.Writer, r why.Request, wide bool) error {
	printable.Printf(out, "  request %s of class %s", r.Name, r.Class)
	if r.Message != "" {
		printable.Printf(out, ": %s", r.Message)
	}
	printable.Printf(out, "\n")
	table := printable.NewTable(out, 3)
	if wide {
		for _, d := range r.Devices {
			printable.Printf(table, "    %s/%s/%s\t%s\t%s\n", d.Driver, d.Pool, d.Device, or(string(d.Reason), "-"), or(d.Message, "suitable"))
		}
		return table.Flush()
	}
	for _, g := range lines(r) {
		printable.Printf(table, "    %d\t%s\t%s\t%s\n", g.devices, or(string(g.reason), "-"), g.message, g.names)
	}
	return table.Flush()
}

// A line is a number of devices with the same reason.
type line struct {
	devices        int
	reason         why.Reason
	message, names string
}

// lines groups the devices of a request. Devices of other classes and on other nodes are
// counted only.
func lines(r why.Request) (all []line) {
	reasons, devices := r.Reasons()
	slices.SortStableFunc(reasons, func(a, b why.Reason) int { return cmp.Compare(foreign(a), foreign(b)) })
	for _, reason := range reasons {
		switch reason {
		case why.ClassSelector:
			all = append(all, line{devices[reason], reason, "not in DeviceClass " + r.Class, plural.Of(distinct(r, reason, func(d why.Device) string { return d.Driver }), "driver")})
		case why.NodeMismatch:
			all = append(all, line{devices[reason], reason, "on nodes where the pod cannot run", plural.Of(distinct(r, reason, func(d why.Device) string { return d.Driver + "/" + d.Pool }), "pool")})
		default:
			all = append(all, alike(r, reason)...)
		}
	}
	return all
}

// foreign sorts the devices that are only counted to the end.
func foreign(reason why.Reason) int {
	switch reason {
	case why.NodeMismatch:
		return 1
	case why.ClassSelector:
		return 2
	}
	return 0
}

func distinct(r why.Request, reason why.Reason, of func(why.Device) string) int {
	found := map[string]bool{}
	for _, d := range r.Devices {
		if d.Reason == reason {
			found[of(d)] = true
		}
	}
	return len(found)
}

// alike puts the devices of one reason with the same message together, the largest groups
// first.
func alike(r why.Request, reason why.Reason) (all []line) {
	groups, at := [][]why.Device{}, map[string]int{}
	for _, d := range r.Devices {
		if d.Reason != reason {
			continue
		}
		i, known := at[d.Message]
		if !known {
			i = len(groups)
			at[d.Message], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], d)
	}
	slices.SortStableFunc(groups, func(a, b []why.Device) int { return cmp.Compare(len(b), len(a)) })
	for i, group := range groups {
		if i == shownGroups {
			rest := 0
			for _, g := range groups[i:] {
				rest += len(g)
			}
			return append(all, line{rest, reason, "for similar reasons (-o wide)", ""})
		}
		all = append(all, line{len(group), reason, or(group[0].Message, "suitable"), named(group)})
	}
	return all
}

// named names the first devices of a group.
func named(group []why.Device) string {
	var names []string
	for _, d := range group[:min(len(group), shownDevices)] {
		names = append(names, d.Pool+"/"+d.Device)
	}
	return plural.List(names, shownDevices, len(group))
}
