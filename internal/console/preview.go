package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A preview is what a command would say about a device now.
type preview struct {
	Title, Command string
	// Lines are its answer, Error is why there is none.
	Lines []string
	Error string
}

// command is a line for a shell.
func (s *Server) command(words ...string) string {
	return s.options.Name + " " + why.Command(words...)
}

// withPods returns what is known of the cluster with its pods.
func (s *Server) withPods(ctx context.Context, now *shown) (fleet.Input, error) {
	if s.options.FleetWithPods == nil {
		return now.fleet.Input, nil
	}
	return s.options.FleetWithPods(ctx)
}

// previews are the answers of impact, drain --dry-run and whatif for one device. A bounded number
// is computed at a time, each in bounded time. The pods are those of which they are made.
func (s *Server) previews(ctx context.Context, now *shown, id usage.DeviceID) ([]preview, []*corev1.Pod) {
	all := s.newPreviews(id)
	done, err := s.begin(ctx)
	if err != nil {
		return failed(all, err), nil
	}
	defer done()
	in, err := s.withPods(ctx, now)
	if err == nil && in.NoPods {
		err = errors.New("unknown: you are not allowed to list the pods of all namespaces")
	}
	if err != nil {
		return failed(all, err), nil
	}
	return s.predictAll(ctx, in, objectsOf(in), id), in.Pods
}

// newPreviews are previews without answers.
func (s *Server) newPreviews(id usage.DeviceID) []preview {
	target := id.String()
	return []preview{
		{Title: "If it is tainted with NoExecute", Command: s.command("impact", target, "example.com/broken:NoExecute")},
		{Title: "If it is drained", Command: s.command("drain", target, "--dry-run=client")},
		{Title: "Where its pods land", Command: s.command("whatif", "drain", target)},
	}
}

// predictAll answers for one device.
func (s *Server) predictAll(ctx context.Context, in fleet.Input, objects taints.Objects, id usage.DeviceID) []preview {
	all := s.newPreviews(id)
	all[0].Lines = impactOf(objects, id, s.options.Now)
	all[1].Lines = drainOf(in, objects, id, s.options.Now)
	var err error
	limited, cancel := context.WithTimeout(ctx, predictTime)
	defer cancel()
	switch all[2].Lines, err = landing(limited, in, id); {
	case errors.Is(err, context.DeadlineExceeded):
		all[2].Error = tooLong()
	case err != nil:
		all[2].Error = err.Error()
	}
	if in.Partial {
		for i := range all {
			all[i].Lines = append(all[i].Lines, "partial view: claims that you are not allowed to read are not counted")
		}
	}
	return all
}

// begin waits until it may predict. The caller calls done.
func (s *Server) begin(ctx context.Context) (done func(), _ error) {
	select {
	case s.predict <- struct{}{}:
		return func() { <-s.predict }, nil
	case <-ctx.Done():
		return nil, errors.New("busy: other predictions run; reload the page")
	}
}

func failed(all []preview, err error) []preview {
	for i := range all {
		all[i].Error = err.Error()
	}
	return all
}

// maxPreview is how many lines of an answer a page shows.
const maxPreview = 24

func firstLines(lines []string) []string {
	if rest := len(lines) - maxPreview; rest > 0 {
		return append(lines[:maxPreview:maxPreview], fmt.Sprintf("and %s; the command shows all", plural.Of(rest, "more line")))
	}
	return lines
}

func objectsOf(in fleet.Input) taints.Objects {
	return taints.Objects{Claims: in.Claims, Pods: in.Pods, Budgets: in.Budgets, Published: guard.PublishedDevices(in.View.PublishedSlices()), Thresholds: in.Thresholds}
}

// impactOf is the answer of impact.
func impactOf(objects taints.Objects, id usage.DeviceID, now clock) []string {
	return reportLines(taints.NewPodImpact(objects, taints.Target(id).Selector(), resourceapi.DeviceTaint{Key: "example.com/broken"}, now()))
}

// reportLines are the lines of a report: its pods, and what it says of them all.
func reportLines(report taints.PodImpact) (lines []string) {
	for _, pod := range report.Pods {
		line := fmt.Sprintf("evicts %s/%s (%s) from %s", pod.Namespace, pod.Name, pod.Owner, pod.Node)
		if pod.ToleratedUntil != nil {
			line += ", tolerated until " + stamp(pod.ToleratedUntil.Time)
		}
		lines = append(lines, line)
	}
	lines = firstLines(lines)
	var text bytes.Buffer
	if err := report.WriteText(&text, true); err != nil {
		return []string{err.Error()}
	}
	all := splitLines(text.String())
	if rows := len(report.Pods); rows > 0 {
		all = all[min(rows+1, len(all)):] // the table with its header
	}
	return append(lines, firstLines(all)...)
}

// drainOf is the answer of drain --dry-run.
func drainOf(in fleet.Input, objects taints.Objects, id usage.DeviceID, now clock) (lines []string) {
	wanted := &v1alpha1.DeviceDrain{Spec: v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{v1alpha1.DeviceName(id)}}}
	return decidedLines(decided(in, objects, wanted, now))
}

// decided is what a drain does first, and what it looked at.
func decided(in fleet.Input, objects taints.Objects, wanted *v1alpha1.DeviceDrain, now clock) (drain.Input, drain.Decision) {
	wanted = wanted.DeepCopy()
	wanted.Spec.DryRun = true
	if wanted.UID == "" {
		wanted.Name, wanted.UID = "preview", "preview"
	}
	input := drain.Gather(wanted, in.View, objects.Index(), drain.Published(in.View, objects.Index()))
	input.Now, input.Thresholds = now(), in.Thresholds.Thresholds
	return input, drain.Decide(input)
}

func decidedLines(input drain.Input, decision drain.Decision) (lines []string) {
	for _, name := range input.Devices.Names {
		lines = append(lines, "cordon "+name.String())
	}
	lines = firstLines(lines)
	if n := len(input.Siblings); n > 0 {
		lines = append(lines, siblingsText(n, input.Siblings[0])+"; --with-partitions drains them")
	}
	var evictions []string
	for i, pod := range decision.Order {
		evictions = append(evictions, fmt.Sprintf("evict %d. %s/%s", i+1, pod.Namespace, pod.Name))
	}
	if len(evictions) == 0 {
		evictions = []string{"evict no pods"}
	}
	lines = append(lines, firstLines(evictions)...)
	if c := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.DrainBlocked); c != nil && c.Status == metav1.ConditionTrue {
		lines = append(lines, "blocked "+c.Reason+": "+c.Message)
	}
	return lines
}

// siblingsText says that devices share counters with those that change.
func siblingsText(n int, first string) string {
	if n == 1 {
		return "1 device that shares counters with them can still be allocated: " + first
	}
	return fmt.Sprintf("%d devices that share counters with them can still be allocated, first %s", n, first)
}

// placementOf returns what decides where pods land.
func placementOf(in fleet.Input) placement.Cluster {
	return placement.Cluster{View: in.View, Claims: in.Claims, Pods: in.Pods, Nodes: in.Nodes, Templates: in.Templates, Groups: in.Groups,
		NoNodes: in.Nodes != nil && len(in.Nodes) == 0, IncompletePools: in.IncompletePools, Gates: in.Gates, Now: in.At}
}

// landing is the answer of whatif drain.
func landing(ctx context.Context, in fleet.Input, id usage.DeviceID) (lines []string, _ error) {
	cluster := placementOf(in)
	found := []taints.Target{taints.Target(id)}
	answer, err := cluster.Predict(ctx, cluster.Drained(taints.Cordons(found), taints.In(found)))
	if err != nil {
		return nil, err
	}
	return landings(answer), nil
}

// landings are where pods land.
func landings(answer placement.Answer) (lines []string) {
	for _, move := range answer.Moves {
		lines = append(lines, moveText(move))
	}
	if len(answer.Moves) == 0 {
		lines = append(lines, "no pods leave")
	}
	if n := slices.IndexFunc(answer.Moves, func(m placement.Move) bool { return m.Contested }); n >= 0 {
		lines = append(lines, fmt.Sprintf("contested: at least %d and at most %d land", answer.Least, answer.Most))
	}
	return firstLines(lines)
}

func moveText(m placement.Move) string {
	pod := m.Namespace + "/" + m.Pod
	switch {
	case m.Verdict == placement.Lands:
		return pod + " lands on " + m.Node
	case m.Reason != nil && m.Verdict == placement.Never:
		return pod + " lands nowhere: " + m.Reason.Message
	case m.Verdict == placement.Unknown:
		return pod + " lands or waits, unknown: " + m.Reason.Message
	case m.Reason != nil:
		return pod + " waits: " + m.Reason.Message
	}
	return pod + " waits"
}
