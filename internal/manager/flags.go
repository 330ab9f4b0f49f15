package manager

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// AddFlags adds all flags of the command.
func (o *Options) AddFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Mode, "mode", string(evictor.ModeObserve), "mode of evictions: observe, auto, supplement or full")
	f.StringVar(&o.emptyEffect, "empty-effect", string(toleration.EmptyEffectAll), "what a toleration without effect tolerates: All, as the API documents, or NoSchedule, as Kubernetes 1.37 implements it")
	f.StringVar(&o.tolerationStart, "toleration-start", string(evictor.StartTaintAdded), "when tolerationSeconds start: TaintAdded, as the API documents, or MaxOfTaintAndAllocation")
	f.BoolVar(&o.ignorePodGroups, "ignore-pod-groups", false, "do not evict pods that hold a claim only through their PodGroup")
	f.Float64Var(&o.perSecond, "evictions-per-second", 20, "maximum number of evictions per second (at most 1000)")
	f.Float64Var(&o.perNamespace, "evictions-per-second-and-namespace", 0, "maximum number of evictions per second in one namespace; 0 = no limit")
	f.StringVar(&o.ActSince, "act-since", "", `ignore older taints: a time (2026-01-02T15:04:05Z) or "always" (default: from the ConfigMap)`)
	f.BoolVar(&o.leaderElect, "leader-elect", true, "be active only while holding the Lease")
	f.BoolVar(&o.extendedResources, "extended-resources", false, "send pods that request an extendedResourceName of a DeviceClass to the webhook: keep a webhook in --webhook-configurations")
	f.BoolVar(&o.extendedClaims, "extended-claims", false, "create an event on each pod whose claim for extended resources is refused by the webhook's rules and policies")
	f.StringVar(&o.config, "config", "", "configuration file of the webhook, for --extended-claims (default: the API server's limits)")
	f.StringVar(&o.policyNamespace, "policy-namespace", "", "namespace of the webhook's additional policies, for --extended-claims")
	f.BoolVar(&o.expireRules, "expire-rules", true, "delete DeviceTaintRules at the time in their annotation dra-steward.io/expires, in every mode")
	f.BoolVar(&o.ruleBegin, "rule-begin", false, "record in the status of each DeviceTaintRule when it began to evict, for the guard of the webhook, in every mode")
	f.BoolVar(&o.patchStatus, "patch-status", true, "write the status of ResourceSlicePatches; not with --mode=observe and --leader-elect=false")
	f.StringVar(&o.patches, "patches", string(slicemerge.None), "update ResourceSlices that differ from the result of ResourceSlicePatches: none, materialize, or restore to remove patched values; same as the webhook's flag")
	f.Float64Var(&o.poolsPerSecond, "touched-pools-per-second", materialize.DefaultPools, "maximum number of pools per second whose slices are updated, with --patches; fewer while the API server answers slowly")
	f.BoolVar(&o.drains, "drains", true, "execute DeviceDrains, in every mode")
	f.BoolVar(&o.reactions, "reactions", false, "execute DeviceReactions, in every mode: drain sick devices; reads nodes and needs --drains")
	f.BoolVar(&o.history, "history", false, "record actions on devices and their holders, for dra-steward history, in every mode; in ConfigMaps of --namespace")
	f.StringSliceVar(&o.restartDrivers, "restart-drivers", nil, "namespaces of drivers whose pods DeviceReactions with end.restartDriver delete; empty: off")
	f.StringVar(&o.proofs.Namespace, "proof-namespace", "", "namespace of the Jobs that test drained devices (spec.prove of DeviceReactions); empty: off. It needs --reactions")
	f.StringVar(&o.proofs.ServiceAccount, "proof-service-account", "default", "ServiceAccount of their pods")
	f.BoolVar(&o.rolls, "rolls", false, "execute DeviceRolls, in every mode: maintain drivers and nodes one by one; reads nodes and needs --drains")
	f.BoolVar(&o.drainForesight, "drain-foresight", false, "report in the status of DeviceDrains which pods do not land again; reads nodes, ResourceClaimTemplates and PodGroups, and keeps more of each pod")
	f.BoolVar(&o.capacityMetrics, "capacity-metrics", false, "once a minute, count the free devices of each driver and class, and the claims that fit, for metrics; reads nodes")
	f.BoolVar(&o.capacityPatched, "capacity-patched", false, "apply ResourceSlicePatches to the devices that --capacity-metrics counts, as dra-steward-scheduler does")
	cmdutil.DurationVar(f, &o.drainBackoff, "drain-backoff", 5*time.Minute, "how long a drain waits before it evicts a returned pod again; doubles each time, up to an hour")
	f.StringVar(&o.namespace, "namespace", "", "namespace of Lease and ConfigMap (default: the namespace of the pod)")
	f.StringVar(&o.Name, "name", "dra-steward-controller", "name of Lease and ConfigMap")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the cluster of this pod)")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address for /healthz and /readyz (HTTP); empty: off")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address for /metrics (HTTP); empty: off")
	daemon.SecureFlag(f, &o.metricsSecure)
	f.StringVar(&o.logLevel, "log-level", "info", "minimum log level: debug (with every decision), info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "format of the log on standard error: json or text")
	cmdutil.Complete(c, "mode", []string{string(evictor.ModeObserve), string(evictor.ModeAuto), string(evictor.ModeSupplement), string(evictor.ModeFull)})
	cmdutil.Complete(c, "log-level", []string{"debug", "info", "warn", "error"})
	cmdutil.Complete(c, "log-format", []string{"json", "text"})
	o.policyFlags(f)
	o.patchFlags(f)
	o.addThresholds(c)
	o.certificates.flags(c)
}

// addThresholds adds the flags of the circuit breaker.
func (o *Options) addThresholds(c *cobra.Command) {
	f := c.Flags()
	defaults := guard.DefaultThresholds()
	f.IntVar(&o.breaker.Pods, "threshold-pods", defaults.Pods, "maximum number of pods that a rule or driver evicts without an acknowledgement")
	f.IntVar(&o.breaker.Namespaces, "threshold-namespaces", defaults.Namespaces, "maximum number of their namespaces")
	cmdutil.DurationVar(f, &o.breakerWindow, "threshold-window", guard.DefaultWindow, "how long an eviction counts against the thresholds together with the drains that a DeviceReaction or a DeviceRoll creates after it, at most 1h; 0s counts each by itself")
	f.IntVar(&o.breaker.Percent, "threshold-percent", defaults.Percent, "maximum percentage of the devices of the drivers; 100 = no limit")
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
