package whatif

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func write(out io.Writer, format string, headers bool, answer placement.Answer) error {
	switch format {
	case "text", "wide":
		return writeTable(out, answer, format == "wide", headers)
	case "name":
		for _, m := range answer.Moves {
			if m.Verdict != placement.Lands {
				if _, err := printable.Printf(out, "pod/%s\n", m.Pod); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return cmdutil.PrintTable(out, format, answer, headers)
}

func writeTable(out io.Writer, answer placement.Answer, wide, headers bool) error {
	table := printable.NewTable(out, 3)
	if len(answer.Moves) > 0 && headers {
		printable.Printf(table, "POD\tLEAVES\tFROM\tLANDS ON\tWHY NOT")
		if wide {
			printable.Printf(table, "\tOWNER\tDEVICES")
		}
		printable.Printf(table, "\n")
	}
	for _, m := range answer.Moves {
		printable.Printf(table, "%s/%s\t%s\t%s\t%s\t%s", m.Namespace, m.Pod, leaves(m), cmp.Or(m.From, "-"), place(m), reason(m))
		if wide {
			printable.Printf(table, "\t%s\t%s", cmp.Or(m.Owner, "-"), cmp.Or(strings.Join(m.Devices, ","), "-"))
		}
		printable.Printf(table, "\n")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, line := range append(waiting(answer), summary(answer)) {
		printable.Printf(out, "%s\n", line)
	}
	return nil
}

func leaves(m placement.Move) string {
	switch {
	case m.From == "":
		return "-"
	case m.IfRestarted:
		return "if restarted"
	case m.After.Duration == 0:
		return "now"
	}
	return "after " + m.After.Duration.String()
}

func place(m placement.Move) string {
	node := cmp.Or(m.Node, "-")
	if m.Contested {
		node += " (contested)"
	}
	return node
}

func reason(m placement.Move) string {
	if m.Again != nil {
		return fmt.Sprintf("for %s only: it tolerates the taint that long", m.Again.Duration)
	}
	if m.Reason == nil {
		return "-"
	}
	return strings.ToLower(string(m.Verdict)) + ": " + m.Reason.Message
}

// waiting are the lines about pods that have waited before.
func waiting(answer placement.Answer) (lines []string) {
	landed := 0
	for _, m := range answer.Waiting {
		if m.Verdict == placement.Lands {
			landed++
		}
	}
	if len(answer.Waiting) == 0 {
		return nil
	}
	fit := "none fits"
	if landed > 0 {
		fit = fmt.Sprintf("%d of them fit", landed)
	}
	return []string{fmt.Sprintf("%s pending before; %s after the change", plural.Of(len(answer.Waiting), "pod"), fit)}
}

// summary is the last line.
func summary(answer placement.Answer) string {
	if len(answer.Moves) == 0 {
		return "no pods leave"
	}
	arrive := !slices.ContainsFunc(answer.Moves, func(m placement.Move) bool { return m.From != "" })
	verb := "leave"
	if arrive {
		verb = "arrive"
	}
	var parts []string
	counts := map[placement.Verdict]int{}
	reasons := map[placement.Verdict]map[string]bool{placement.Waits: {}, placement.Never: {}, placement.Unknown: {}}
	contested := 0
	for _, m := range answer.Moves {
		counts[m.Verdict]++
		if m.Verdict != placement.Lands {
			reasons[m.Verdict][short(m.Reason)] = true
		}
		if m.Contested {
			contested++
		}
	}
	where := " elsewhere"
	if arrive {
		where = ""
	}
	if n := counts[placement.Lands]; n > 0 {
		parts = append(parts, subject(n, "", "land")+where)
	}
	if n := counts[placement.Waits]; n > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s)", subject(n, "", "wait"), strings.Join(slices.Sorted(maps.Keys(reasons[placement.Waits])), "; ")))
	}
	if n := counts[placement.Never]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d never (%s)", n, strings.Join(slices.Sorted(maps.Keys(reasons[placement.Never])), "; ")))
	}
	if n := counts[placement.Unknown]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown (%s)", n, strings.Join(slices.Sorted(maps.Keys(reasons[placement.Unknown])), "; ")))
	}
	line := subject(len(answer.Moves), "pod", verb) + ": " + strings.Join(parts, ", ")
	if answer.Least != answer.Most && contested > 0 {
		line += fmt.Sprintf("; contested: at least %d and at most %d land", answer.Least, answer.Most)
	} else if contested > 0 {
		line += fmt.Sprintf("; which of the %d contested pods land depends on the order", contested)
	}
	return line
}

// subject is a number with a noun, if there is one, and its verb.
func subject(n int, noun, verb string) string {
	if n == 1 {
		verb += "s"
	}
	if noun == "" {
		return fmt.Sprintf("%d %s", n, verb)
	}
	return plural.Of(n, noun) + " " + verb
}

// short is a reason in a few words.
func short(r *placement.Reason) string {
	if r.Kind == placement.Constraint {
		return "constraint " + r.Detail[strings.LastIndex(r.Detail, "/")+1:]
	}
	if r.Kind == placement.Unchecked {
		return r.Message
	}
	words := map[placement.Kind]string{
		placement.NodePorts: "ports of nodes", placement.TopologySpread: "topology spread", placement.PodAffinity: "pod affinity", placement.PodAntiAffinity: "pod anti-affinity",
		placement.VolumeElsewhere: "volumes are elsewhere",
		placement.Taken:           "devices are allocated", placement.Tainted: "devices are tainted", placement.Devices: "no suitable devices",
		placement.Kept: "its claim is named, stays allocated", placement.NoOwner: "no controller creates it again", placement.NodeGone: "its DaemonSet runs it on that node only",
		placement.Resources: "cpu, memory or pods of nodes", placement.NodeSelector: "node selector or affinity", placement.NodeTaint: "taints of nodes",
		placement.Unschedulable: "nodes are unschedulable", placement.Gang: "not enough of its PodGroup", placement.Slow: "the search takes too long", placement.TooLarge: "larger than is read",
	}
	return cmp.Or(words[r.Kind], r.Message)
}
