package clusterread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A FaultCheck is what a command does about the known faults that it can set off.
type FaultCheck struct {
	// Scheduler says where the version of kube-scheduler is read.
	Scheduler SchedulerMetrics
	// Acknowledged are the references of faults that the user accepts.
	Acknowledged []string
}

// AddFlags adds the flags.
func (c *FaultCheck) AddFlags(f *pflag.FlagSet) {
	c.Scheduler.AddFlags(f)
	f.StringSliceVar(&c.Acknowledged, "acknowledge-fault", nil, "continue although kube-scheduler has this known fault, such as kubernetes#139651 (repeatable)")
}

// Check reports the known faults of the cluster that a trigger sets off. One that
// kube-scheduler certainly has is an error, unless it is acknowledged or the command is a dry
// run. It is a warning if the version of kube-scheduler is unknown, and that of the API server
// has the fault, or if it is the version of a vendor.
func (c FaultCheck) Check(ctx context.Context, streams cmdutil.Streams, config *rest.Config, trigger faults.Trigger, dry bool) error {
	known := faults.Known()
	for _, reference := range c.Acknowledged {
		if !slices.ContainsFunc(known, func(f faults.Fault) bool { return f.Reference == reference }) {
			return fmt.Errorf("--acknowledge-fault %q: must be one of %s", reference, faults.References(known))
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	version, component := "", "kube-scheduler"
	if c.Scheduler.Target != "" {
		if version, err = c.Scheduler.version(ctx, client); err != nil {
			return err
		}
	}
	certain := faults.Released(version) && !dry
	if version == "" {
		info, err := client.Discovery().ServerVersion()
		if err != nil { // the command itself reports what it cannot do
			return nil
		}
		version, component = info.GitVersion, "the API server"
	}
	var refused []error
	for _, fault := range faults.Of(version, trigger) {
		text := fmt.Sprintf("%s is %s: %s", component, version, fault)
		if certain && !slices.Contains(c.Acknowledged, fault.Reference) {
			refused = append(refused, fmt.Errorf("%s; to continue, add --acknowledge-fault %s", text, fault.Reference))
			continue
		}
		printable.Printf(streams.Err, "warning: %s\n", text)
	}
	return errors.Join(refused...)
}

// version reads the version of kube-scheduler. Metrics that are forbidden, or that do not have
// it, are no error.
func (s SchedulerMetrics) version(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	reported, err := s.scheduler(ctx, &reading{client: client})
	if err != nil && !errors.Is(err, servergates.ErrDenied) {
		return "", fmt.Errorf("--scheduler-metrics %s: %s", s.Target, strings.TrimSpace(err.Error()))
	}
	return reported.Version, nil
}
