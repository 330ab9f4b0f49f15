package manager

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// AddFlags adds all flags of the command.
func (o *Options) AddFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Mode, "mode", string(evictor.ModeObserve), "what to do about decisions: observe, auto, supplement or full")
	f.StringVar(&o.emptyEffect, "empty-effect", string(toleration.EmptyEffectAll), "what a toleration without effect tolerates: All, as the API says, or NoSchedule, as Kubernetes 1.37 does")
	f.StringVar(&o.tolerationStart, "toleration-start", string(evictor.StartTaintAdded), "when tolerationSeconds begin: TaintAdded, as the API says, or MaxOfTaintAndAllocation")
	f.BoolVar(&o.ignorePodGroups, "ignore-pod-groups", false, "leave pods alone that hold a claim only through their PodGroup")
	f.Float64Var(&o.perSecond, "evictions-per-second", 20, "most evictions per second (at most 1000)")
	f.Float64Var(&o.perNamespace, "evictions-per-second-and-namespace", 0, "most evictions per second in one namespace; 0 is no limit of its own")
	f.StringVar(&o.ActSince, "act-since", "", `leave older taints alone: a time (2026-01-02T15:04:05Z) or "always" (default: what the ConfigMap says)`)
	f.BoolVar(&o.leaderElect, "leader-elect", true, "work only while holding the Lease")
	f.BoolVar(&o.extendedResources, "extended-resources", false, "have pods sent to the webhook that ask for an extendedResourceName of a DeviceClass: keep a webhook in --webhook-configurations")
	f.BoolVar(&o.expireRules, "expire-rules", true, "delete DeviceTaintRules when the time of their annotation dra-steward.io/expires is over, in every mode")
	f.BoolVar(&o.patchStatus, "patch-status", true, "say in the status of ResourceSlicePatches what becomes of them, in every mode")
	f.StringVar(&o.patches, "patches", string(materialize.None), "touch the ResourceSlices that are not what ResourceSlicePatches make of them: none, materialize, or restore to take patches back; as the webhook's flag of that name")
	f.Float64Var(&o.poolsPerSecond, "touched-pools-per-second", materialize.DefaultPools, "most pools whose slices are touched, with --patches")
	f.BoolVar(&o.drains, "drains", true, "carry out DeviceDrains, in every mode")
	f.DurationVar(&o.drainBackoff, "drain-backoff", 5*time.Minute, "how long a drain leaves pods alone that came back; it doubles each time, up to an hour")
	f.StringVar(&o.namespace, "namespace", "", "namespace of Lease and ConfigMap (default: that of the pod)")
	f.StringVar(&o.Name, "name", "dra-steward-controller", "name of Lease and ConfigMap")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the cluster that this runs in)")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address for /healthz and /readyz (HTTP); empty switches it off")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address for /metrics (HTTP); empty switches it off")
	f.StringVar(&o.logLevel, "log-level", "info", "least level to log: debug (with every decision), info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "how to log to standard error: json or text")
	cmdutil.Complete(c, "mode", []string{string(evictor.ModeObserve), string(evictor.ModeAuto), string(evictor.ModeSupplement), string(evictor.ModeFull)})
	cmdutil.Complete(c, "log-level", []string{"debug", "info", "warn", "error"})
	cmdutil.Complete(c, "log-format", []string{"json", "text"})
	o.addThresholds(c)
	o.certificates.flags(c)
}

// addThresholds adds the flags of the circuit breaker.
func (o *Options) addThresholds(c *cobra.Command) {
	f := c.Flags()
	defaults := guard.DefaultThresholds()
	f.IntVar(&o.breaker.Pods, "threshold-pods", defaults.Pods, "most pods that a rule or driver evicts without an acknowledgement")
	f.IntVar(&o.breaker.Namespaces, "threshold-namespaces", defaults.Namespaces, "most namespaces, likewise")
	f.IntVar(&o.breaker.Percent, "threshold-percent", defaults.Percent, "largest share of the devices of the drivers, likewise; 100 is no limit")
}

// thresholds are those of the circuit breaker.
func (o Options) thresholds() *guard.Thresholds { return &o.breaker }

// validateThresholds says which of them make no sense.
func (o Options) validateThresholds() error {
	if o.breaker.Pods < 0 || o.breaker.Namespaces < 0 || o.breaker.Percent < 0 || o.breaker.Percent > 100 {
		return errors.New("--threshold-pods and --threshold-namespaces must be 0 or more, --threshold-percent from 0 to 100")
	}
	return nil
}
