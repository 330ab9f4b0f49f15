package drain

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// plan prints the effect of a drain. In a server dry run, the API server also checks the drain.
func (o drainOptions) plan(ctx context.Context, streams cmdutil.Streams, config *rest.Config, client *ownclient.DrainClient, view *tracker.Snapshot, wanted *v1alpha1.DeviceDrain) error {
	reader, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	holders, err := holdersOf(ctx, reader)
	if err != nil {
		return err
	}
	thresholds := clusterread.SiteThresholds(ctx, reader)
	wanted = wanted.DeepCopy()
	wanted.Spec.DryRun = true
	in := drain.Gather(wanted, view, holders, drain.Published(view, holders))
	in.Now, in.Thresholds = time.Now(), thresholds.Thresholds
	decision := drain.Decide(in)
	printable.Printf(streams.Out, "devicedrain %s (dry run)\n", wanted.Name)
	for _, text := range cordoned(in.Devices.Names) {
		printable.Printf(streams.Out, "cordon %s\n", text)
	}
	if len(in.Siblings) > 0 {
		printable.Printf(streams.Out, "not drained, and allocatable although they share counters with the devices: %s; --with-partitions drains them\n", strings.Join(some(in.Siblings), ", "))
	}
	w := printable.NewTable(streams.Out, 3)
	for i, pod := range decision.Order {
		printable.Printf(w, "evict %d.\t%s/%s\t%s\t%s\n", i+1, pod.Namespace, pod.Name, controllerOf(pod), budgetsOf(pod))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printWindow(streams.Out, wanted.Spec.Windows, in.Now)
	blocked := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.DrainBlocked)
	if blocked != nil && blocked.Status == metav1.ConditionTrue {
		printable.Printf(streams.Out, "blocked %s: %s\n", blocked.Reason, blocked.Message)
		if blocked.Reason == v1alpha1.BlockedThreshold {
			printable.Printf(streams.Out, "thresholds: %s\n", thresholds.From)
		}
	}
	wanted.Spec.DryRun = false
	if o.dry == cmdutil.DryRunServer {
		if _, err := client.Create(ctx, wanted, true); err != nil {
			return clusterwrite.DrainError(err)
		}
	}
	if blocked != nil && blocked.Status == metav1.ConditionTrue {
		return cmdutil.ErrFindings
	}
	return nil
}

// printWindow says when evictions begin if no window is open.
func printWindow(out io.Writer, all []v1alpha1.Window, now time.Time) {
	if when, err := windows.At(all, now); err == nil && !when.Open {
		printable.Printf(out, "no pods are evicted before %s, when the next window opens\n", when.Until.UTC().Format(time.RFC3339))
	}
}

// maxNamed is how many devices a plan names one by one.
const maxNamed = 32

// cordoned are the devices of a drain, or its pools with a number if there are many devices.
func cordoned(names []v1alpha1.DeviceName) (texts []string) {
	if len(names) <= maxNamed {
		for _, name := range names {
			texts = append(texts, name.String())
		}
		return texts
	}
	devices := map[string]int{}
	for _, name := range names {
		devices[name.Driver+"/"+name.Pool]++
	}
	for _, pool := range slices.Sorted(maps.Keys(devices)) {
		texts = append(texts, fmt.Sprintf("%s: %s", pool, plural.Of(devices[pool], "device")))
	}
	return texts
}

// some are the first of many names.
func some(names []string) []string {
	if more := len(names) - maxNamed; more > 0 {
		return append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return names
}

func controllerOf(pod drain.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return "no controller"
}

func budgetsOf(pod drain.Pod) string {
	text := "no budget"
	for i, budget := range pod.Budgets {
		if i == 0 {
			text = ""
		} else {
			text += ", "
		}
		text += fmt.Sprintf("budget %s allows %d", budget.Name, budget.Status.DisruptionsAllowed)
	}
	return text
}

// holdersOf reads who holds which device.
func holdersOf(ctx context.Context, client kubernetes.Interface) (*usage.Index, error) {
	holders := &usage.Index{}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading ResourceClaims: %w", err)
	}
	for i := range claims.Items {
		holders.SetClaim(&claims.Items[i])
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading pods: %w", err)
	}
	for i := range pods.Items {
		holders.SetPod(&pods.Items[i])
	}
	budgets, err := client.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading PodDisruptionBudgets: %w", err)
	}
	for i := range budgets.Items {
		holders.SetBudget(&budgets.Items[i])
	}
	return holders, nil
}
