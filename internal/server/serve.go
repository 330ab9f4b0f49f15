// Package server is the program behind serve: the admission webhook with its configuration,
// the live data that it watches, and its metrics.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

type serveOptions struct {
	config, certDir, certificateSecret     string
	clientCA                               string
	briefAnswers                           bool
	selfSigned                             []string
	address, healthAddress, metricsAddress string
	metricsSecure                          bool
	memory                                 int64 // the limit, 0 for none
	shutdownDelay, requestTimeout          time.Duration
	liveData, guard, podDeletions          bool
	driverPods, extendedResources          bool
	foresight, reactions                   bool
	kubeconfig                             string
	policies                               []string
	policyNamespace, policyStatus          string
	patches, patchRecords, patchWriter     string
	logLevel, logFormat                    string
	decisions                              webhook.DecisionSettings
	tracing                                tracingOptions
}

const serveHelp = `serve answers the admission requests of API servers over HTTPS: POST /mutate fills in
defaults, POST /validate denies and warns, and with --guard POST /guard refuses taint
rules and drains that hit more than the site allows. POST /pods checks new pods whose
extended resources are backed by DRA as the claims that the scheduler makes for them. With --live-data it also reads
DeviceClasses, ResourceSlices, DeviceTaintRules and the labels of namespaces from the API
server, for the rules and policies that look beyond one object, and with --guard claims,
pods and PodDisruptionBudgets. With --pod-deletions it reads claims and pods, and refuses
deletions by force of pods that hold devices. With --driver-pods it reads the same, and refuses
to end the pods of drivers while claims are prepared. Otherwise it needs no access to the
Kubernetes API.

The certificate comes from --cert-dir (tls.crt and tls.key, as in a mounted Secret of type
kubernetes.io/tls), or from the Secret --certificate-secret, which the controller manages.
serve loads a changed certificate without a restart. On SIGTERM, readiness fails, requests
are served for --shutdown-delay, and requests in flight are finished. Unless --shutdown-delay
is 0, serve ends when API servers have closed the connections that they do not use, which
takes 90 seconds.

serve reads the configuration file again when it changes. It refuses an invalid file, and
the last valid one stays in force; the metric dra_steward_config_load_failed and the log
report that.`

// Command is the command that runs the admission webhook.
func Command(streams cmdutil.Streams) *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the admission webhook",
		Long:  serveHelp,
		Example: `  # Development: create a certificate for this host; put ca.crt into caBundle.
  dra-steward serve --cert-dir ./tls --self-signed localhost,127.0.0.1

  # In a cluster, as the chart does it:
  dra-steward serve --config /etc/dra-steward/config.yaml --cert-dir /etc/dra-steward/tls`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), streams, o) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "configuration file with the site's limits and defaults (default: the API server's limits)")
	f.StringVar(&o.certDir, "cert-dir", "/etc/dra-steward/tls", "folder with tls.crt and tls.key")
	f.StringVar(&o.certificateSecret, "certificate-secret", "", "Secret (namespace/name) with tls.crt and tls.key, watched instead of --cert-dir; it need not exist yet")
	f.StringVar(&o.clientCA, "client-ca", "", "file with the certificate authorities of API servers; connections without a client certificate of one of them are refused (default: all connections are accepted)")
	f.BoolVar(&o.briefAnswers, "brief-answers", false, "answers to callers without a client certificate of --client-ca name fields and rules only: no messages, exemptions or impact (the log of decisions has these)")
	f.StringSliceVar(&o.selfSigned, "self-signed", nil, "for development: create a certificate for these host names and addresses if --cert-dir has none")
	f.StringVar(&o.address, "address", ":9443", "address for admission requests (HTTPS)")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address for /healthz and /readyz (HTTP); empty: off")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address for /metrics (HTTP); empty: off")
	daemon.SecureFlag(f, &o.metricsSecure)
	cmdutil.DurationVar(f, &o.shutdownDelay, "shutdown-delay", 5*time.Second, "how long to serve requests after SIGTERM, until API servers observe the shutdown")
	cmdutil.DurationVar(f, &o.requestTimeout, "request-timeout", 5*time.Second, "how long API servers wait at most for an answer; serve answers a second earlier, also if a request has a shorter timeout")
	clusterFlags(f, &o)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for --live-data, --guard, --pod-deletions, --driver-pods, --policy-namespace, --certificate-secret and --metrics-secure (default: the cluster of this pod)")
	f.StringVar(&o.logLevel, "log-level", "info", "minimum log level: debug, info (with denials and warnings), warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "format of the log on standard error: json or text")
	recordingFlags(f, &o)
	cmdutil.Complete(c, "log-level", []string{"debug", "info", "warn", "error"})
	cmdutil.Complete(c, "log-format", []string{"json", "text"})
	return c
}

func serve(ctx context.Context, streams cmdutil.Streams, o serveOptions) error {
	log, err := daemon.NewLogger(streams.Err, streams.SetLogger, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	if o.selfSigned != nil && o.certificateSecret == "" {
		if err := webhook.SelfSigned(o.certDir, o.selfSigned); err != nil {
			return fmt.Errorf("--self-signed: %w", err)
		}
	}
	o.memory = limitMemory()
	registry := prometheus.NewRegistry()
	if err := daemon.RegisterBuildInfo(registry); err != nil {
		return err
	}
	recorded, err := o.recording(registry, log)
	if err != nil {
		return err
	}
	defer recorded.end()
	clusterView, err := o.world(registry, log)
	if err != nil {
		return err
	}
	site, err := o.site(ctx, clusterView, registry, log)
	if err != nil {
		return err
	}
	if err := o.furnish(site, clusterView, registry, log); err != nil {
		return err
	}
	certificate, err := o.certificate(log)
	if err != nil {
		return err
	}
	server := o.newServer(site, clusterView, certificate, recorded, log)
	if err := RegisterState(registry, server, readiness(server, clusterView, site)); err != nil {
		return err
	}
	return serveAll(ctx, server, clusterView, site, registry, o, log)
}

// newServer is the server of the webhook with all its handlers.
func (o serveOptions) newServer(site *reloader, clusterView *ClusterView, certificate webhook.Certificate, recorded recording, log logr.Logger) *webhook.Server {
	return &webhook.Server{
		Mutating:      webhook.Mutating(site.reviewer, recorded.options),
		Validating:    site.validating(recorded.options),
		Guarding:      site.guarding(recorded.options),
		Pods:          o.pods(site, recorded.options),
		CertDir:       o.certDir,
		Certificate:   certificate,
		ShutdownDelay: o.shutdownDelay,
		ClientCA:      o.clientCA,
		Bounds: webhook.Bounds{
			Timeout: o.requestTimeout,
			Bytes:   bodyMemory(o.memory),
			System:  func(user string) bool { return site.reviewer().SystemUser(user) },
			Tenant:  tenant(site, clusterView),
		},
		Metrics: recorded.options.Metrics,
		Log:     log,
	}
}

// pods checks pods with extended resources. Switched off, it admits those that the API server sends still.
func (o serveOptions) pods(site *reloader, options webhook.Options) admission.Handler {
	if !o.extendedResources {
		return admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
	}
	return webhook.ExtendedResources(site.reviewer, options)
}

// tenant returns the tenant of a namespace, by the label that the configuration names. It reads
// no namespace from the API server: it is called before a request has a slot.
func tenant(site *reloader, clusterView *ClusterView) func(namespace string) string {
	return func(namespace string) string {
		label := site.reviewer().TenantLabel()
		if label == "" || clusterView == nil || clusterView.clusterData.Namespaces == nil {
			return ""
		}
		return clusterView.clusterData.Namespaces.Known(namespace)[label]
	}
}

// clusterView has the other objects that the rules see, nil without --live-data.
func (o serveOptions) world(registry *prometheus.Registry, log logr.Logger) (*ClusterView, error) {
	if !o.liveData {
		return nil, nil
	}
	return newClusterView(o.kubeconfig, registry, log)
}

// evaluationTime is how long the selectors of one write are evaluated at most.
const evaluationTime = 50 * time.Millisecond

// site returns the reloader of the configuration file.
func (o serveOptions) site(ctx context.Context, clusterView *ClusterView, registry *prometheus.Registry, log logr.Logger) (*reloader, error) {
	site := &reloader{path: o.config, log: log, cacheBytes: cacheMemory(o.memory), complete: func(*review.Reviewer) {}, minor: func() int { return 0 }}
	if clusterView != nil {
		evaluations := &validate.Evaluations{CacheBytes: cacheMemory(o.memory)}
		site.minor = clusterView.server.minor
		site.complete = func(r *review.Reviewer) {
			r.ClusterView, r.ClusterData, r.Templates, r.Evaluations = clusterView, clusterView.clusterData, clusterView.templates, evaluations
			r.SelectorTime = evaluationTime
		}
	}
	sources, err := policyload.Sources(o.policies)
	if err != nil {
		return nil, err
	}
	if site.files.Set, err = policyload.Compile(ctx, sources); err != nil {
		return nil, err
	}
	if site.metrics, err = NewConfigMetrics(registry, site.reviewer); err != nil {
		return nil, err
	}
	if o.policyNamespace != "" {
		site.policies, err = o.configMaps(site, sources, registry)
		if err != nil {
			return nil, err
		}
	}
	err = site.start(time.Now())
	if err != nil && site.policies != nil {
		// The file may be for policies that replace those of the library.
		if problem := site.policies.Start(ctx); problem != nil {
			return nil, errors.Join(err, fmt.Errorf("with the policies of the ConfigMaps: %w", problem))
		}
		err = nil
	}
	return site, err
}

// configMaps follow the policies of a namespace.
func (o serveOptions) configMaps(site *reloader, sources []policy.Collection, registry *prometheus.Registry) (*policyload.ConfigMaps, error) {
	metrics, err := policyload.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	return policyload.NewConfigMaps(&policyload.ConfigMaps{
		Namespace: o.policyNamespace, StatusName: o.policyStatus, Sources: sources, Use: site.usePolicies, Agrees: site.agrees,
		Log: site.log, Metrics: metrics}, o.kubeconfig)
}

// serveAll serves admission, health and metrics. The latter two stay up until
// admission is done, so that probes see how it ends.
func serveAll(ctx context.Context, server *webhook.Server, clusterView *ClusterView, site *reloader, registry *prometheus.Registry, o serveOptions, log logr.Logger) error {
	at, err := daemon.ListenAll(map[string]string{
		"--address": o.address, "--health-address": o.healthAddress, "--metrics-address": o.metricsAddress,
	})
	if err != nil {
		return err
	}
	metrics, handler, err := o.metrics(site, registry, at["--metrics-address"], log)
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(background)
	group.Go(func() error {
		return daemon.ServeHTTP(failed, at["--health-address"], healthHandler(server, clusterView, site))
	})
	group.Go(func() error { return daemon.ServeHTTP(failed, metrics, handler) })
	group.Go(func() error { return site.run(failed) })
	if clusterView != nil {
		group.Go(func() error { return clusterView.run(failed) })
	}
	if site.policies != nil {
		group.Go(func() error { return site.policies.Run(failed) })
	}
	if site.guard != nil {
		group.Go(func() error { return site.guard.Run(failed) })
	}
	admission, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(failed, cancel)
	group.Go(func() error {
		defer stop()
		log.Info("serving admission requests", "version", version.Get().Version, "commit", version.Get().Commit, "address", daemon.AddressOf(at["--address"]),
			"health", daemon.AddressOf(at["--health-address"]), "metrics", daemon.AddressOf(at["--metrics-address"]))
		return server.Serve(admission, at["--address"])
	})
	return group.Wait()
}

// metrics are served by listener, with --metrics-secure to authorized users only.
func (o serveOptions) metrics(site *reloader, registry *prometheus.Registry, listener net.Listener, log logr.Logger) (net.Listener, http.Handler, error) {
	var config *rest.Config
	if o.metricsSecure {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
			return nil, nil, fmt.Errorf("--metrics-secure: %w", err)
		}
	}
	listener, metrics, err := daemon.SecureMetrics(o.metricsSecure, config, listener, daemon.MetricsHandler(registry), log)
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics-secure: %w", err)
	}
	return listener, site.metricsHandler(metrics), nil
}

// clusterFlags select what is read from the cluster, and the policies.
func clusterFlags(f *pflag.FlagSet, o *serveOptions) {
	f.BoolVar(&o.liveData, "live-data", false, "read DeviceClasses, ResourceSlices, DeviceTaintRules and namespaces of the cluster, for rules and policies that need other objects")
	f.BoolVar(&o.guard, "guard", false, "serve POST /guard: read the claims, pods and PodDisruptionBudgets of the cluster, to refuse taint rules and drains whose impact exceeds the thresholds")
	f.BoolVar(&o.reactions, "guard-reactions", false, "with --guard and --live-data: also read the conditions of nodes and the health of devices in the status of pods, to count what DeviceReactions to them drain")
	f.BoolVar(&o.foresight, "guard-foresight", false, "with --guard and --live-data: also read nodes, ResourceClaimTemplates and PodGroups, to tell which of the pods that a write evicts do not land again")
	f.BoolVar(&o.podDeletions, "pod-deletions", false, "check deletions and evictions of pods: read the claims and pods of the cluster, to refuse forced deletion of pods that hold devices")
	f.BoolVar(&o.driverPods, "driver-pods", false, "check deletions and evictions of the pods of drivers that the configuration lists (driverPods): read the claims and pods of the cluster, to refuse them while claims on the node are prepared")
	f.BoolVar(&o.extendedResources, "extended-resources", true, "check new pods at POST /pods; false admits all pods that are sent still")
	f.StringArrayVar(&o.policies, "policies", nil, "folder or OPA bundle with policies in addition to the library; a policy replaces another with the same code (repeatable)")
	f.StringVar(&o.policyNamespace, "policy-namespace", "", "namespace of additional policies, in ConfigMaps with the label dra-steward.io/policy=true")
	f.StringVar(&o.policyStatus, "policy-status", "", "name of the ConfigMap in that namespace in which the controller reports the state of the policies")
	f.StringVar(&o.patches, "patches", string(slicemerge.None), "write patched values into published slices: none, materialize (needs --live-data), or restore to remove them")
	f.StringVar(&o.patchRecords, "patch-records", "", "ConfigMaps (namespace/prefix) in which the controller records the original values of drivers")
	f.StringVar(&o.patchWriter, "patch-writer", "", "user name of the controller, which updates slices so that patched values are written into them: no rule about authors checks its updates that change attributes and capacity at most")
}

// certificate is that of the Secret of --certificate-secret, nil for the files of
// --cert-dir.
func (o serveOptions) certificate(log logr.Logger) (webhook.Certificate, error) {
	if o.certificateSecret == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(o.certificateSecret, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("--certificate-secret %q: must be namespace/name", o.certificateSecret)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or use --cert-dir", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return webhook.NewSecretCertificate(client, namespace, name, log)
}

// RegisterState registers the metrics of whether the webhook is ready, and of when the certificate that
// is served ends.
func RegisterState(registry prometheus.Registerer, server *webhook.Server, ready map[string]healthz.Checker) error {
	all := metric.For(registry)
	all.GaugeFunc("dra_steward_webhook_ready", "1 while the webhook is ready for the requests of API servers, as /readyz says, otherwise 0.", func() float64 {
		for _, check := range ready {
			if check(nil) != nil {
				return 0
			}
		}
		return 1
	})
	all.GaugeFunc("dra_steward_serving_certificate_expiry_timestamp_seconds", "Expiry of the certificate that is served to API servers, as Unix time; 0 while there is none.", func() float64 {
		if at := server.Expires(); !at.IsZero() {
			return float64(at.Unix())
		}
		return 0
	})
	all.GaugeFunc("dra_steward_client_certificate_required", "1 if only API servers with a client certificate may ask the webhook (certificates.clientCA); 0 if each client that reaches its port may: set certificates.clientCA, or networkPolicy.podNetworks.", func() float64 {
		if server.ClientCA != "" {
			return 1
		}
		return 0
	})
	return all.Err()
}

// readiness are the checks of whether API servers may send requests. They read no request.
func readiness(server *webhook.Server, clusterView *ClusterView, site *reloader) map[string]healthz.Checker {
	ready := map[string]healthz.Checker{"admission": server.Ready}
	if clusterView != nil {
		ready["live-data"] = clusterView.ready
	}
	if site.policies != nil {
		ready["policies"] = site.policies.Ready
	}
	if site.guard != nil {
		ready["guard"] = site.guard.Ready
	}
	return ready
}

// healthHandler serves /healthz, which succeeds as long as the process lives, and
// /readyz, which succeeds while API servers may send requests.
func healthHandler(server *webhook.Server, clusterView *ClusterView, site *reloader) http.Handler {
	return daemon.Probes(readiness(server, clusterView, site))
}
