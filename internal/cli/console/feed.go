package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cli/report"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A feed reads a cluster, and shows it.
type feed struct {
	source  clusterread.Source
	server  *console.Server
	streams cmdutil.Streams
	cluster string
	// typed, drains, reactions and rolls are nil for files.
	typed     kubernetes.Interface
	drains    *ownclient.DrainClient
	reactions *ownclient.ReactionClient
	rolls     *ownclient.RollClient
	// ofFiles are the drains, reactions and rolls of files.
	ofFiles ownObjects
	// first has the feature gates, which are read once.
	first *clusterread.Snapshot
	// release is where the history is.
	release clusterread.Release

	mutex      sync.Mutex // one read at a time
	before     *fleet.Fleet
	withPods   *fleet.Input
	withPodsOf *fleet.Fleet
}

// feed reads the cluster for the first time.
func (o *options) feed(ctx context.Context, streams cmdutil.Streams) (*feed, error) {
	f := &feed{source: o.read, streams: streams.Once(), cluster: "files", release: clusterread.Release{Namespace: o.release, Controller: o.controller}}
	if o.read.Files == nil {
		config, err := o.read.Client.Config(streams)
		if err != nil {
			return nil, err
		}
		f.cluster = config.Host
		if f.typed, err = kubernetes.NewForConfig(config); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		if f.drains, err = ownclient.NewDrainClient(config); err != nil {
			return nil, err
		}
		if f.reactions, err = ownclient.NewReactionClient(config); err != nil {
			return nil, err
		}
		if f.rolls, err = ownclient.NewRollClient(config); err != nil {
			return nil, err
		}
		if o.export == "" {
			f.source.Watcher = clusterread.NewWatcher(streams.Err)
		}
	}
	var err error
	if f.ofFiles, err = ownObjectsOf(streams, f.source.Files); err != nil {
		return nil, err
	}
	options := f.options(ctx, o)
	if options.Writer, err = o.writer(streams); err != nil {
		return nil, err
	}
	if f.server, err = console.New(options); err != nil {
		return nil, err
	}
	first := clusterread.SnapshotOptions{Source: f.source, Claims: true, Nodes: true, Gates: true, Scheduler: o.faults.Scheduler}
	if f.first, err = first.Read(ctx, f.streams); err != nil {
		return nil, err
	}
	return f, f.refresh(ctx)
}

// options are what the pages are made of. The report and the policies are read on demand, apart from
// what is watched.
func (f *feed) options(ctx context.Context, o *options) console.Options {
	reader := report.Reader{Source: o.read, Namespace: o.release, Flag: "--release-namespace", Config: o.config}
	options := console.Options{Cluster: f.cluster, Now: time.Now, FleetWithPods: f.withPodsFor(ctx), Events: f.readEvents, NodeEvents: f.nodeEvents, Findings: findings(), Name: f.streams.Name, Release: o.release,
		Report: reader.Report, Policies: reader.Policies}
	if f.typed != nil {
		options.History = f.history
	}
	return options
}

// history reads the record of a device.
func (f *feed) history(ctx context.Context, device v1alpha1.DeviceName) (*history.Record, error) {
	return history.ReadOne(ctx, f.typed.CoreV1().ConfigMaps(f.release.Namespace), history.ConfigMapPrefix(f.release.Controller), device, time.Now())
}

// ownObjects are objects of our own types.
type ownObjects struct {
	drains    []*v1alpha1.DeviceDrain
	reactions []*v1alpha1.DeviceReaction
	rolls     []*v1alpha1.DeviceRoll
}

// ownObjectsOf reads the drains, reactions and rolls of files. Standard input can be read once only, and is
// left out.
func ownObjectsOf(streams cmdutil.Streams, files []string) (found ownObjects, _ error) {
	files = slices.DeleteFunc(slices.Clone(files), func(name string) bool { return name == "-" })
	if len(files) == 0 {
		return found, nil
	}
	for document, err := range (manifest.Reader{MaxBytes: manifest.DumpBytes}).Walk(files...) {
		if err != nil {
			return found, err
		}
		if !strings.HasPrefix(document.APIVersion, v1alpha1.Group+"/") {
			continue
		}
		var problems []manifest.Problem
		switch document.Kind {
		case v1alpha1.DeviceDrainKind:
			one := &v1alpha1.DeviceDrain{}
			problems, found.drains = manifest.DecodeInto(document, one), append(found.drains, one)
		case v1alpha1.DeviceReactionKind:
			one := &v1alpha1.DeviceReaction{}
			problems, found.reactions = manifest.DecodeInto(document, one), append(found.reactions, one)
		case v1alpha1.DeviceRollKind:
			one := &v1alpha1.DeviceRoll{}
			problems, found.rolls = manifest.DecodeInto(document, one), append(found.rolls, one)
		}
		for _, problem := range problems {
			printable.Printf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	return found, nil
}

// text is the number of devices and the cluster that they belong to.
func (f *feed) text() string {
	return fmt.Sprintf("showing %s of %s", plural.Of(len(f.before.Devices), "device"), f.cluster)
}

// refresh shows the cluster as it is now.
func (f *feed) refresh(ctx context.Context) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	in, err := f.read(ctx, clusterread.SnapshotOptions{Source: f.source, Claims: true, Nodes: true})
	if err != nil {
		return err
	}
	now, err := fleet.Build(ctx, in, f.before)
	if err != nil {
		return err
	}
	f.before = now
	f.server.Show(now)
	return nil
}

// read reads objects. The caller has the mutex.
func (f *feed) read(ctx context.Context, o clusterread.SnapshotOptions) (in fleet.Input, _ error) {
	found := f.first
	if f.source.Files == nil {
		var err error
		if found, err = o.Read(ctx, f.streams); err != nil {
			return in, err
		}
	}
	in = fleet.Input{View: found.View, Claims: found.Claims, Nodes: found.Nodes, Pods: found.Pods, Templates: found.Templates, Groups: found.Groups,
		Partial: found.PartialClaims, NoClasses: found.NoClasses, NoGroups: found.NoGroups, IncompletePools: found.Before135,
		Gates: f.first.Gates, Server: found.Server, At: found.At, Notes: found.Notes}
	if f.drains == nil {
		in.Drains, in.Reactions, in.Rolls = f.ofFiles.drains, f.ofFiles.reactions, f.ofFiles.rolls
		return in, nil
	}
	var err error
	in.Drains, err = clusterread.List[*v1alpha1.DeviceDrain](ctx, &f.source, f.quiet(), "DeviceDrains", f.drains)
	if err = optional(&in, "DeviceDrains", err); err != nil {
		return in, err
	}
	in.Reactions, err = clusterread.List[*v1alpha1.DeviceReaction](ctx, &f.source, f.quiet(), "DeviceReactions", f.reactions)
	if err = optional(&in, "DeviceReactions", err); err != nil {
		return in, err
	}
	in.Rolls, err = clusterread.List[*v1alpha1.DeviceRoll](ctx, &f.source, f.quiet(), "DeviceRolls", f.rolls)
	return in, optional(&in, "DeviceRolls", err)
}

// optional notes that a kind cannot be read, and passes over one that is not installed.
func optional(in *fleet.Input, kind string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		in.Notes = append(in.Notes, kind+" cannot be read")
		return nil
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// quiet are streams for reads that show no progress.
func (f *feed) quiet() cmdutil.Streams { return cmdutil.Streams{Out: io.Discard, Err: io.Discard} }

// withPodsFor reads the cluster with its pods for a page, as long as the page waits. The watches that this begins go on
// until the command ends.
func (f *feed) withPodsFor(command context.Context) func(context.Context) (fleet.Input, error) {
	type answer struct {
		in  fleet.Input
		err error
	}
	return func(page context.Context) (fleet.Input, error) {
		read := make(chan answer, 1)
		go func() {
			in, err := f.readWithPods(command)
			read <- answer{in, err}
		}()
		select {
		case a := <-read:
			return a.in, a.err
		case <-page.Done():
			return fleet.Input{}, page.Err()
		}
	}
}

// readWithPods reads the cluster with its pods. What it has read for the fleet that is shown is
// kept.
func (f *feed) readWithPods(ctx context.Context) (fleet.Input, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.withPods != nil && f.withPodsOf == f.before && f.source.Watcher == nil {
		return *f.withPods, nil
	}
	in, err := f.read(ctx, clusterread.SnapshotOptions{Source: f.source, Claims: true, Nodes: true, AllPods: true})
	if err != nil {
		return in, err
	}
	in.Thresholds = taints.Thresholds{Thresholds: guard.DefaultThresholds(), From: "default; unknown with --from-files"}
	if f.typed != nil {
		in.Thresholds = clusterread.SiteThresholds(ctx, f.typed)
		in.Budgets, err = clusterread.List[*policyv1.PodDisruptionBudget](ctx, &f.source, f.quiet(), "PodDisruptionBudgets", f.typed.PolicyV1().PodDisruptionBudgets(""))
		if apierrors.IsForbidden(err) {
			in.NoBudgets, err = true, nil
		}
	}
	f.withPods, f.withPodsOf = &in, f.before
	return in, err
}

// findings are the reasons of the events that the agents of nodes write.
func findings() (reasons []string) {
	for _, kind := range nodeagent.Kinds() {
		reasons = append(reasons, kind.Event)
	}
	return reasons
}

// readEvents reads the events about an object.
func (f *feed) readEvents(ctx context.Context, namespace, kind, name string) ([]*corev1.Event, error) {
	if f.typed == nil {
		return f.first.EventsOfFiles(namespace, kind, name), nil
	}
	return clusterread.EventsAbout(ctx, f.typed, namespace, kind, name)
}

// nodeEvents reads the events of the agents of nodes.
func (f *feed) nodeEvents(ctx context.Context) (all []*corev1.Event, more bool, err error) {
	if f.typed != nil {
		return clusterread.EventsOf(ctx, f.typed, nodeagent.EventComponent)
	}
	for _, event := range f.first.Events {
		if event.Source.Component == nodeagent.EventComponent {
			all = append(all, event)
		}
	}
	return all, false, nil
}

// follow shows the changes of the cluster until ctx ends. A read that fails is tried again; until then
// what is shown is not current.
func (f *feed) follow(ctx context.Context) {
	if f.source.Watcher == nil {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(checkAgain)
	defer ticker.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if failed == "" {
				f.check("")
				continue
			}
		case <-f.source.Watcher.Changed():
		}
		begin := time.Now()
		failed = ""
		if err := f.refresh(ctx); err != nil {
			failed = err.Error()
		}
		if ctx.Err() != nil {
			return
		}
		f.check(failed)
		// In a cluster that never rests, this program uses half a core.
		select {
		case <-ctx.Done():
		case <-time.After(time.Since(begin)):
		}
	}
}

// check makes pages report a cluster that cannot be read.
func (f *feed) check(reason string) {
	if failing := f.source.Watcher.Failing(); failing != "" && reason == "" {
		reason = "the API server cannot be reached for " + failing
	}
	f.server.Stale(reason)
}
