package roll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A planned node is one that a roll drains.
type planned struct {
	name    string
	devices []taints.Target
	moves   []placement.Move
}

// plan prints what a roll does, node by node. In a server dry run, the API server also checks the roll.
func (o *options) plan(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, wanted *v1alpha1.DeviceRoll) error {
	o.Claims, o.Nodes, o.Gates, o.AllPods = true, true, true, true
	l, err := o.Read(ctx, streams)
	if err != nil {
		return err
	}
	if l.Nodes == nil || l.NoPods || l.PartialClaims {
		return errors.New("what the roll does is unknown: you are not allowed to list the nodes, and the pods and claims of all namespaces")
	}
	nodes, err := predict(ctx, l, wanted)
	if err != nil {
		return err
	}
	stranded := printPlan(streams, wanted, nodes)
	previous, err := client.List(ctx, metav1.ListOptions{})
	if err != nil && o.dry == cmdutil.DryRunServer {
		return noType(err)
	}
	if err == nil {
		printDuration(streams.Out, wanted, len(nodes), previous.Items)
	}
	if o.dry == cmdutil.DryRunServer {
		if _, err := client.CreateRoll(ctx, wanted, true); err != nil {
			return err
		}
	}
	if stranded > 0 {
		return cmdutil.ErrFindings
	}
	return nil
}

// predict finds the nodes of a roll in their order, and where the pods of each land while the other
// nodes are in use.
func predict(ctx context.Context, l *clusterread.Snapshot, wanted *v1alpha1.DeviceRoll) (nodes []planned, _ error) {
	cluster, published := l.Placement(false), roll.Published(wanted.Spec.Driver, l.View)
	for _, node := range l.Nodes {
		if len(published[node.Name]) == 0 || !roll.Selects(wanted, node) {
			continue
		}
		n := planned{name: node.Name}
		for _, name := range published[node.Name] {
			n.devices = append(n.devices, taints.Target{Driver: name.Driver, Pool: name.Pool, Device: name.Device})
		}
		has := map[usage.DeviceID]bool{}
		for _, name := range published[node.Name] {
			has[usage.DeviceID(name)] = true
		}
		answer, err := cluster.Predict(ctx, cluster.Drained(taints.Cordons(n.devices), func(id usage.DeviceID) bool { return has[id] }))
		if err != nil {
			return nil, err
		}
		n.moves = answer.Moves
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no node that is selected has devices%s", ofDriver(wanted.Spec.Driver))
	}
	slices.SortFunc(nodes, func(a, b planned) int {
		return cmp.Or(cmp.Compare(len(a.moves), len(b.moves)), strings.Compare(a.name, b.name))
	})
	return nodes, nil
}

func ofDriver(driver string) string {
	if driver == "" {
		return ""
	}
	return " of driver " + driver
}

// printPlan prints the nodes, and counts the pods that do not land.
func printPlan(streams cmdutil.Streams, wanted *v1alpha1.DeviceRoll, nodes []planned) (stranded int) {
	out := streams.Out
	printable.Printf(out, "deviceroll %s (dry run): %s, at most %d at a time\n", wanted.Name, plural.Of(len(nodes), "node"), ptr.Deref(wanted.Spec.AtATime, 1))
	for i, n := range nodes {
		printable.Printf(out, "%d. %s: %s, %s\n", i+1, n.name, plural.Of(len(n.devices), "device"), leaves(len(n.moves)))
		for _, m := range n.moves {
			where := "lands on " + m.Node
			if m.Verdict != placement.Lands {
				stranded++
				where = "does not land again"
				if m.Reason != nil {
					where += ": " + m.Reason.Message
				}
			}
			printable.Printf(out, "   %s/%s %s\n", m.Namespace, m.Pod, where)
		}
		if wanted.Spec.Canary == int32(i+1) && i+1 < len(nodes) {
			printable.Printf(out, "   then it waits for %s roll --continue %s\n", streams.Program(), wanted.Name)
		}
	}
	return stranded
}

func leaves(pods int) string {
	if pods == 1 {
		return "1 pod leaves"
	}
	return plural.Of(pods, "pod") + " leave"
}

// printDuration prints how long the roll takes, if previous rolls of the driver tell it.
func printDuration(out io.Writer, wanted *v1alpha1.DeviceRoll, nodes int, previous []v1alpha1.DeviceRoll) {
	var took time.Duration
	done := 0
	for i := range previous {
		if previous[i].Spec.Driver != wanted.Spec.Driver || (previous[i].Spec.NodeWork == nil) != (wanted.Spec.NodeWork == nil) {
			continue
		}
		for _, n := range previous[i].Status.Nodes {
			if n.State == v1alpha1.RollDone && n.StartTime != nil && n.CompletionTime != nil {
				took += n.CompletionTime.Sub(n.StartTime.Time)
				done++
			}
		}
	}
	if done == 0 {
		printable.Printf(out, "how long it takes is unknown: no node was rolled before\n")
		return
	}
	each := (took / time.Duration(done)).Round(time.Second)
	atATime := max(1, int(ptr.Deref(wanted.Spec.AtATime, 1))) // the API server refuses less
	turns := (nodes + atATime - 1) / atATime
	printable.Printf(out, "about %s: %s took %s each in previous rolls\n", each*time.Duration(turns), plural.Of(done, "node"), each)
}
