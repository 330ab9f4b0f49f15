// Package manager is the program behind controller: it elects a leader and runs the
// controllers.
package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// Options are the flags of the command controller.
type Options struct {
	Mode, emptyEffect, tolerationStart string
	ignorePodGroups                    bool
	perSecond, perNamespace            float64
	ActSince                           string
	breaker                            guard.Thresholds
	leaderElect, patchStatus, drains   bool
	drainForesight, reactions, history bool
	rolls                              bool
	breakerWindow                      time.Duration
	proofs                             proofOptions
	restartDrivers                     []string
	expireRules, extendedResources     bool
	extendedClaims, ruleBegin          bool
	capacityMetrics, capacityPatched   bool
	config, policyNamespace            string
	drainBackoff                       time.Duration
	namespace, Name                    string
	policyStatus, webhookSelector      string
	patches, patchRecords              string
	patchDelay, statusGap              time.Duration
	poolsPerSecond                     float64
	kubeconfig                         string
	healthAddress, metricsAddress      string
	metricsSecure                      bool
	logLevel, logFormat                string
	certificates                       certificateOptions
}

// Command returns the command that runs the controllers.
func Command(streams cmdutil.Streams) *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller that evicts pods from tainted devices",
		Long: `controller decides which pods have to leave their devices because of a NoExecute taint
(KEP-5055). --mode selects what it does:

  observe      log and count evictions; evict no pods
  auto         detect what kube-controller-manager evicts, separately for taints in
               slices and for DeviceTaintRules, and evict the rest: observe at first,
               supplement if it is detected, full after three unanswered probes over
               two minutes
  supplement   evict only the pods on extended resources, which kube-controller-manager
               misses
  full         evict all pods: for clusters where kube-controller-manager does not

Installing evicts no pods: taints older than the first start in a mode that evicts are
not acted on. That time is stored in the ConfigMap --name under actSince; an earlier time
there, or "always", includes older taints, and so does the annotation
dra-steward.io/acknowledged-impact on an older DeviceTaintRule.

Above the thresholds, evictions for a rule or a driver are paused until a ceiling is
acknowledged: in that annotation, or in the ConfigMap under acknowledged-impact.DRIVER.

Only the replica that holds the Lease --name is active. The flags --patch-status and
--drains, on by default, work in every mode: the controller writes the status of
ResourceSlicePatches and executes DeviceDrains.

With --certificate-secret it also creates the webhook's certificate, renews it before it
expires, and writes its authority to the webhook configurations.`,
		Example: `  # Show which pods it evicts in this cluster, without evictions.
  dra-steward controller --kubeconfig ~/.kube/config --leader-elect=false --log-level debug

  # Act on older taints, too.
  kubectl -n dra-steward patch configmap dra-steward-controller -p '{"data":{"actSince":"always"}}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runController(c.Context(), streams, o) },
	}
	o.AddFlags(c)
	return c
}

// Settings are the parts of the options that the evictor checks itself.
func (o Options) Settings() (evictor.Semantics, error) {
	s := evictor.Semantics{
		EmptyEffect:     toleration.EmptyEffect(o.emptyEffect),
		TolerationStart: evictor.TolerationStart(o.tolerationStart),
		IgnorePodGroups: o.ignorePodGroups,
	}
	return s, errors.Join(evictor.Mode(o.Mode).Validate(), s.Validate(), o.limits().Validate(), o.certificates.validate())
}

func (o Options) limits() evictor.Limits {
	return evictor.Limits{PerSecond: o.perSecond, PerNamespace: o.perNamespace}
}

func runController(ctx context.Context, streams cmdutil.Streams, o Options) error {
	log, err := daemon.NewLogger(streams.Err, streams.SetLogger, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	if _, err := o.Settings(); err != nil {
		return err
	}
	if err := o.validateThresholds(); err != nil {
		return err
	}
	if _, err := ParseSince(o.ActSince); err != nil {
		return fmt.Errorf("--act-since: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file", err)
	}
	if o.namespace, err = o.ownNamespace(); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return o.serveAndLead(ctx, config, registry, log)
}

// onlyObserves reports whether the controller evicts nothing, and may be one of several.
func (o Options) onlyObserves() bool {
	return evictor.Mode(o.Mode) == evictor.ModeObserve && !o.leaderElect
}

// ownNamespace is that of the flag or of the pod.
func (o Options) ownNamespace() (string, error) {
	if o.namespace != "" {
		return o.namespace, nil
	}
	if o.onlyObserves() && o.certificates.secret == "" {
		return "", nil // nothing is kept anywhere
	}
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	namespace, err := os.ReadFile(file)
	if err != nil {
		return "", errors.New("--namespace: outside a cluster, name the namespace of Lease and ConfigMap")
	}
	return string(namespace), nil
}

// controllers returns a function for each controller of package controllers but the eviction,
// which adds it if the options switch it on. The status of patches follows what materialize
// writes.
func (o Options) controllers() []func(*eviction, *rest.Config, *prometheus.Registry, logr.Logger) error {
	return []func(*eviction, *rest.Config, *prometheus.Registry, logr.Logger) error{
		o.addMaterialize, o.addPatchStatus, o.addExpiry, o.addPolicyStatus, o.addCertificates, o.addExtendedResources,
		o.addExtendedClaims, o.addRuleBegin, o.addDrains, o.addReactions, o.addRolls, o.addCapacityMetrics, o.addHistory,
	}
}

// serveAndLead serves health and metrics, and works while it leads. Losing the Lease
// ends the program: another one has taken over.
func (o Options) serveAndLead(ctx context.Context, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	at, err := daemon.ListenAll(map[string]string{"--health-address": o.healthAddress, "--metrics-address": o.metricsAddress})
	if err != nil {
		return err
	}
	eviction, err := o.newEviction(config, registry, log)
	if err != nil {
		return err
	}
	for _, add := range o.controllers() {
		if err := add(eviction, config, registry, log); err != nil {
			return err
		}
	}
	if err := eviction.addMetrics(registry); err != nil {
		return err
	}
	metrics, handler, err := daemon.SecureMetrics(o.metricsSecure, config, at["--metrics-address"], daemon.MetricsHandler(registry), log)
	if err != nil {
		return fmt.Errorf("--metrics-secure: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(background)
	group.Go(func() error {
		return daemon.ServeHTTP(failed, at["--health-address"], daemon.Probes(map[string]healthz.Checker{"evictor": eviction.ready}))
	})
	group.Go(func() error { return daemon.ServeHTTP(failed, metrics, handler) })
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(failed, cancel)
	group.Go(func() error {
		defer stop()
		log.Info("serving health and metrics", "health", daemon.AddressOf(at["--health-address"]), "metrics", daemon.AddressOf(at["--metrics-address"]))
		return eviction.run(working)
	})
	return group.Wait()
}

// ParseSince reads a time or "always"; empty is the zero time and says nothing.
func ParseSince(text string) (time.Time, error) {
	if text == "" || text == "always" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q: must be a time such as 2026-01-02T15:04:05Z or \"always\"", text)
	}
	return at, nil
}

// clientFor is a client with a rate that the evictions and what belongs to them fit in.
func clientFor(config *rest.Config, perSecond float64) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = float32(max(perSecond, 20) * 3)
	config.Burst = int(config.QPS * 2)
	return kubernetes.NewForConfig(config)
}
