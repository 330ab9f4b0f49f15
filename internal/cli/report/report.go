// Package report has the commands that check what a cluster has stored: audit and report.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

const reportHelp = `report shows what each further step of the ladder (mode: observe, warn, default, enforce)
would refuse, default and evict; which pods hold which devices; and which taints are
dormant because no pod holds the device. It writes nothing.

Stored objects are checked as if they were written now, with the configuration, the
policies and the code of the webhook. The requests seen are the counters of each replica of
the webhook since its start, read through the API server. They are upper bounds: a replica
does not know which findings a step would admit because the stored object has them already.
Evictions are those of the controller at that step, by the present taints.

Configuration, counters and settings come from the release in --namespace. With --config,
the configuration comes from a file; with --from-files, the objects do, and the requests
seen are unknown.

It needs the permissions of "dra-steward audit", list for pods and poddisruptionbudgets, and
in the namespace of the release list for configmaps and get for pods/proxy; with --watch also
watch for each of them. A note lists missing permissions, except for pods and stored objects, where they
are an error.

Exit codes: 0 no step refuses or evicts more than the current mode, 1 a step does, 2 the
command failed.`

// reportOptions are the flags of report.
type reportOptions struct {
	read              clusterread.Source
	config, namespace string
	output            string
	watch             bool
	policies          []string
	// flag is the flag that sets namespace, --namespace if it is empty.
	flag string
}

// ReportCommand returns the command report.
func ReportCommand(streams cmdutil.Streams) *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report",
		Short: "Show what each stricter mode would refuse, default and evict",
		Long:  reportHelp,
		Example: `  dra-steward report --namespace dra-steward
  dra-steward report -o json >before.json
  kubectl get resourceclaims,pods,deviceclasses,resourceslices,devicetaintrules,namespaces -A -o yaml >all.yaml
  dra-steward report --config site.yaml --from-files all.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmdutil.CheckOutput(o.output, report.Texts()...); err != nil {
				return err
			}
			if o.watch {
				return o.follow(c.Context(), streams.Once())
			}
			changes, err := o.write(c.Context(), streams, streams.Out)
			if err == nil && changes {
				err = cmdutil.ErrFindings
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "dra-steward", "namespace of the release")
	o.read.AddFlags(c)
	f.StringVar(&o.config, "config", "", "configuration file to use instead of that of the release")
	f.StringArrayVar(&o.policies, "policies", nil, "folder or OPA bundle with policies in addition to the library (repeatable)")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(report.Texts()...), ", ")+"; wide has every object and device")
	f.BoolVarP(&o.watch, "watch", "w", false, "after the report, print the lines that change")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(report.Texts()...))
	return c
}

// write writes the report, and returns whether a step changes anything.
func (o reportOptions) write(ctx context.Context, streams cmdutil.Streams, out io.Writer) (changes bool, _ error) {
	r, err := o.report(ctx, streams, time.Now())
	if err != nil {
		return false, err
	}
	if !slices.Contains(report.Texts(), o.output) {
		return r.Changes(), cmdutil.Print(out, o.output, r)
	}
	return r.Changes(), r.Write(o.output, out)
}

// countAgain is how often a report that is watched asks the webhook for its counters.
const countAgain = 30 * time.Second

// follow writes the report, and then its lines that change. Counters have no watch.
func (o reportOptions) follow(ctx context.Context, streams cmdutil.Streams) error {
	if o.read.Files != nil {
		return clusterread.ErrFilesWatched
	}
	o.read.Watcher = clusterread.NewWatcher(streams.Err)
	o.read.Watcher.Every(ctx, countAgain)
	return cmdutil.Watch(ctx, streams, o.read.Watcher.Changed(), func(ctx context.Context) ([]string, error) {
		r, err := o.report(ctx, streams, time.Now())
		if err != nil {
			return nil, err
		}
		if slices.Contains(report.Texts(), o.output) {
			return cmdutil.Lines(func(out io.Writer) error { return r.Write(o.output, out) })
		}
		return cmdutil.Documents(o.output, []report.Report{r})
	})
}

// report reads everything and checks it.
func (o reportOptions) report(ctx context.Context, streams cmdutil.Streams, now time.Time) (report.Report, error) {
	seen, err := o.release(ctx, streams)
	if err != nil {
		return report.Report{}, err
	}
	state, err := o.read.ReadDevices(ctx, streams)
	if err != nil {
		return report.Report{}, err
	}
	options := audit.Options{Configuration: seen.file.StewardConfiguration, Policies: seen.set, Now: now}
	in := report.Input{Modes: stepsFrom(seen.file.Mode), View: state.View, Seen: seen.counters, Evictions: seen.evictions, Server: state.Server, Now: now}
	counting := &impact.Estimator{Published: state.View.PublishedSlices}
	hold := o.holding(ctx, streams, state, &in, counting)
	var maker *report.Maker
	err = stored{source: o.read, view: state.View}.each(ctx, streams, &options, func() (visit, error) {
		if in.Ladder, err = audit.NewLadder(options, in.Modes, counting); err != nil {
			return nil, seen.file.Locate(err)
		}
		in.Evictions.Minor = options.Minor
		maker = report.NewMaker(&in)
		return func(object audit.Object) error {
			if object.Kind.Kind == "DeviceTaintRule" { // the last kind of a cluster, and the one that hits pods
				if err := hold(); err != nil {
					return err
				}
			}
			if err := maker.Add(object); !errors.As(err, &review.UnknownKindError{}) {
				return err
			}
			return nil
		}, nil
	})
	if err == nil {
		err = hold()
	}
	if err != nil {
		return report.Report{}, err
	}
	r := maker.Report()
	r.Notes = append(r.Notes, seen.notes...)
	return called(r, streams), nil
}

// holding returns a function that reads claims and pods, once. They come after the checks that read attributes, so that
// the command has only one of both in memory.
func (o reportOptions) holding(ctx context.Context, streams cmdutil.Streams, state *clusterread.State, in *report.Input, counting *impact.Estimator) func() error {
	return sync.OnceValue(func() error {
		err := o.read.ReadHolders(ctx, streams, state)
		if err = cmp.Or(err, state.Unread); err == nil {
			in.Holders, in.Pods = state.Objects.Index(), state.Objects.Pods
			counting.Index = in.Holders
		}
		return err
	})
}

// called names the program in notes and remedies as the user called it.
func called(r report.Report, streams cmdutil.Streams) report.Report {
	r.Faults = slices.Clone(r.Faults)
	for i := range r.Faults {
		r.Faults[i].Remedy = streams.Called(r.Faults[i].Remedy)
	}
	for i, note := range r.Notes {
		r.Notes[i] = streams.Called(note)
	}
	return r
}

// stepsFrom are the steps of the ladder from one on.
func stepsFrom(today v1alpha1.Mode) []v1alpha1.Mode {
	if today == "" {
		today = v1alpha1.ModeDefault
	}
	modes := mode.All()
	return modes[max(0, slices.Index(modes, today)):]
}

// A releaseInfo is what a release says of itself.
type releaseInfo struct {
	file      config.File
	set       *policy.Set
	counters  report.Seen
	evictions report.Evictions
	notes     []string
	// maps are the ConfigMaps in its namespace.
	maps []*corev1.ConfigMap
}

func (r *releaseInfo) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// follows says the mode of the controller that the values set, if it is not the one that
// the ladder sets.
func (r *releaseInfo) follows(mode evictor.Mode) evictor.Mode {
	ladder := evictor.ModeObserve
	if r.file.Mode == v1alpha1.ModeEnforce {
		ladder = evictor.ModeAuto
	}
	if mode == ladder {
		return ""
	}
	return mode
}
