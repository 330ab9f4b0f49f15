package device

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dra-steward/dra-steward/internal/why"
)

// shownDevices bounds how many devices a line of why names.
const shownDevices = 3

// writeWhy writes a paragraph for each claim, with a line for each reason, or in wide for
// each device.
func writeWhy(out io.Writer, report whyReport, wide bool) error {
	if report.Pod != "" && len(report.Claims) == 0 {
		fmt.Fprintf(out, "pod %s/%s: uses no claim\n", report.Namespace, report.Pod)
	}
	for _, claim := range report.Claims {
		fmt.Fprintf(out, "claim %s/%s: %s\n", claim.Namespace, claim.Claim, verdict(claim))
		for _, r := range claim.Requests {
			if err := writeRequest(out, r, wide); err != nil {
				return err
			}
		}
		for _, note := range claim.Notes {
			fmt.Fprintf(out, "  note: %s\n", note)
		}
	}
	if report.Scheduler != "" {
		fmt.Fprintf(out, "last scheduler message for pod %s/%s: %s\n", report.Namespace, report.Pod, report.Scheduler)
	}
	return nil
}

func verdict(r why.Report) string {
	text := map[why.Verdict]string{
		why.Allocated:     "allocated",
		why.Allocatable:   "can be allocated now on " + r.Node,
		why.Unsatisfiable: "cannot be allocated",
		why.NotMade:       "does not exist",
	}[r.Verdict]
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func writeRequest(out io.Writer, r why.Request, wide bool) error {
	fmt.Fprintf(out, "  request %s of class %s", r.Name, r.Class)
	if r.Message != "" {
		fmt.Fprintf(out, ": %s", r.Message)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if wide {
		for _, d := range r.Devices {
			fmt.Fprintf(table, "    %s/%s/%s\t%s\t%s\n", d.Driver, d.Pool, d.Device, or(string(d.Reason), "-"), or(d.Message, "suitable"))
		}
		return table.Flush()
	}
	for _, group := range alike(r) {
		names := ""
		for i, d := range group[:min(len(group), shownDevices)] {
			if i > 0 {
				names += ", "
			}
			names += d.Pool + "/" + d.Device
		}
		if n := len(group) - shownDevices; n > 0 {
			names += fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(table, "    %d\t%s\t%s\t%s\n", len(group), or(string(group[0].Reason), "-"), or(group[0].Message, "suitable"), names)
	}
	return table.Flush()
}

// alike puts the devices of one reason and message together, the most frequent reasons
// first.
func alike(r why.Request) (groups [][]why.Device) {
	reasons, _ := r.Reasons()
	for _, reason := range reasons {
		at := map[string]int{}
		for _, d := range r.Devices {
			if d.Reason != reason {
				continue
			}
			if i, known := at[d.Message]; known {
				groups[i] = append(groups[i], d)
				continue
			}
			at[d.Message] = len(groups)
			groups = append(groups, []why.Device{d})
		}
	}
	return groups
}
