package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// benchOptions are the flags of "policy bench".
type benchOptions struct {
	config, output string
	duration       time.Duration
}

const benchHelp = `bench measures each policy with the given manifests, or with samples of its own: time,
bytes and allocations for one write, without kept decisions, and steps, which are the
expressions that are evaluated. Time, bytes and allocations depend on this machine; steps
do not.

A policy is evaluated only for objects of its kinds that have a part of its "needs", and
only if its conditions do not show that it reports nothing. "asked" is the share of writes
for which it is evaluated; the others cost less than a microsecond.

"together" is the time of all policies in force for a write, "known" the time of a decision
that was made before.`

func policyBenchCommand(streams cmdutil.Streams, paths *[]string) *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use: "bench [FILE|FOLDER|- ...]", Short: "Measure what each policy costs",
		Long: benchHelp,
		Example: `  dra-steward policy bench
  dra-steward policy bench --policies ./policies claims/
  dra-steward policy bench -o json >today.json`,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := policyload.Load(c.Context(), *paths)
			if err != nil {
				return err
			}
			return o.run(c.Context(), streams, set, args)
		},
	}
	c.Flags().StringVar(&o.config, "config", "", "configuration file with modes and parameters")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats("text"), ", "))
	cmdutil.DurationVar(c.Flags(), &o.duration, "time", 50*time.Millisecond, "how long to measure each policy")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats("text"))
	return c
}

// A policyCost is what a policy costs for one write, on average.
type policyCost struct {
	Code string `json:"code"`
	// Writes is how many it applies to, Asked how many of these it was asked about.
	Writes       int     `json:"writes"`
	Asked        int     `json:"asked"`
	Microseconds float64 `json:"microseconds"`
	Bytes        uint64  `json:"bytes"`
	Allocations  uint64  `json:"allocations"`
	// Steps are those of a write that it was asked about.
	Steps int `json:"steps"`
}

func (o benchOptions) run(ctx context.Context, streams cmdutil.Streams, set *policy.Set, args []string) error {
	if err := cmdutil.CheckOutput(o.output, "text"); err != nil {
		return err
	}
	if o.duration <= 0 || o.duration > time.Minute {
		return fmt.Errorf("--time %s: must be more than 0s and at most 1m", o.duration)
	}
	writes, err := o.writes(streams, args)
	if err != nil {
		return err
	}
	file, err := config.Load(o.config)
	if err != nil {
		return err
	}
	costs, err := o.costs(ctx, set, file, writes)
	if err != nil {
		return err
	}
	if o.output == "text" {
		return printCosts(streams.Out, costs)
	}
	return cmdutil.Print(streams.Out, o.output, costs)
}

// writes are the objects in files, or samples.
func (o benchOptions) writes(streams cmdutil.Streams, args []string) (writes []policy.Request, _ error) {
	if len(args) == 0 {
		return benchSamples(), nil
	}
	for document, err := range (manifest.Reader{Stdin: streams.In, MaxBytes: 16 << 20}).Walk(args...) {
		if err != nil {
			return nil, err
		}
		if !document.Ours() {
			continue
		}
		object, problems := manifest.Decode(document)
		if object == nil {
			return nil, fmt.Errorf("%s:%d: %s %s: %v", document.File, document.Line, document.Kind, document.Name, problems[0])
		}
		data, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		writes = append(writes, policy.Request{Kind: document.Kind, Name: document.Name, Namespace: document.Namespace, Object: object, Raw: data})
	}
	if len(writes) == 0 {
		return nil, fmt.Errorf("no object of resource.k8s.io in %v: nothing to evaluate", args)
	}
	return writes, nil
}

// costs measures each policy, then all together, then decisions that are known.
func (o benchOptions) costs(ctx context.Context, set *policy.Set, file config.File, writes []policy.Request) ([]policyCost, error) {
	settings, err := review.PolicySettings(file.StewardConfiguration)
	if err != nil {
		return nil, file.Locate(err)
	}
	parameters, err := parameters.Site(file.StewardConfiguration)
	if err != nil {
		return nil, file.Locate(err)
	}
	now := time.Now()
	for i := range writes {
		writes[i].Now, writes[i].Parameters = now, parameters
	}
	kept, err := policy.NewEngine(set, settings)
	if err != nil {
		return nil, err
	}
	settings.CacheBytes = -1
	uncached, err := policy.NewEngine(set, settings)
	if err != nil {
		return nil, err
	}
	costs := []policyCost{}
	for _, p := range set.Policies() {
		cost, err := o.policy(ctx, uncached, p.Code, writes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Code, err)
		}
		costs = append(costs, cost)
	}
	for name, engine := range []*policy.Engine{uncached, kept} {
		cost := policyCost{Code: []string{"together", "known"}[name], Writes: len(writes), Asked: len(writes)}
		var failed error
		o.measure(&cost, len(writes), func() {
			for _, req := range writes {
				if err := engine.Evaluate(ctx, req).Err(); err != nil {
					failed = err
				}
			}
		})
		if failed != nil {
			return nil, failed
		}
		costs = append(costs, cost)
	}
	return costs, ctx.Err()
}

// policy measures one policy.
func (o benchOptions) policy(ctx context.Context, engine *policy.Engine, code string, writes []policy.Request) (policyCost, error) {
	cost := policyCost{Code: code}
	var probes []policy.Benchmark
	for _, req := range writes {
		probe, applies := engine.Benchmark(code, req)
		if !applies {
			continue
		}
		probes = append(probes, probe)
		asked, err := probe.Run(ctx)
		if err != nil {
			return cost, err
		}
		if asked {
			cost.Asked++
		}
		steps, err := probe.Steps(ctx)
		if err != nil {
			return cost, err
		}
		cost.Steps += steps
	}
	if cost.Writes = len(probes); cost.Writes == 0 {
		return cost, nil
	}
	cost.Steps /= max(cost.Asked, 1)
	var failed error
	o.measure(&cost, len(probes), func() {
		for _, probe := range probes {
			if _, err := probe.Run(ctx); err != nil {
				failed = err
			}
		}
	})
	return cost, failed
}

// measure runs do again and again; it is about so many writes.
func (o benchOptions) measure(cost *policyCost, writes int, do func()) {
	do() // what is made once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, runs := time.Now(), 0
	for ; runs == 0 || time.Since(begin) < o.duration; runs++ {
		do()
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	all := uint64(runs * writes)
	cost.Microseconds = float64(took.Nanoseconds()/int64(all)) / 1000
	cost.Bytes, cost.Allocations = (after.TotalAlloc-before.TotalAlloc)/all, (after.Mallocs-before.Mallocs)/all
}

func printCosts(out io.Writer, costs []policyCost) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	printable.Printf(table, "policy\twrites\tasked\tµs\tbytes\tallocations\tsteps\t\n")
	for _, c := range costs {
		if c.Writes == 0 {
			printable.Printf(table, "%s\t0\t-\t-\t-\t-\t-\t\n", c.Code)
			continue
		}
		printable.Printf(table, "%s\t%d\t%d\t%.1f\t%d\t%d\t%d\t\n", c.Code, c.Writes, c.Asked, c.Microseconds, c.Bytes, c.Allocations, c.Steps)
	}
	return table.Flush()
}
