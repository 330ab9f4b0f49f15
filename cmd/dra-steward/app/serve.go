package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

type serveOptions struct {
	config, certDir, certificateSecret     string
	clientCA                               string
	selfSigned                             []string
	address, healthAddress, metricsAddress string
	shutdownDelay                          time.Duration
	liveData, guard, podDeletions          bool
	kubeconfig                             string
	policies                               []string
	policyNamespace, policyStatus          string
	patches, patchRecords                  string
	logLevel, logFormat                    string
	decisions                              webhook.DecisionSettings
	tracing                                tracingOptions
}

func serveCommand(streams Streams) *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the admission webhook",
		Long: `serve answers the admission requests of API servers over HTTPS: POST /mutate fills in
defaults, POST /validate denies and warns, and with --guard POST /guard refuses taint
rules and drains that hit more than the site allows. POST /pods checks new pods whose
extended resources are backed by DRA as the claims that the scheduler makes for them. With --live-data it also reads
DeviceClasses, ResourceSlices, DeviceTaintRules and the labels of namespaces from the API
server, for the rules and policies that look beyond one object, and with --guard claims,
pods and PodDisruptionBudgets. With --pod-deletions it reads claims and pods, and refuses
deletions by force of pods that hold devices. Else it needs no access to the Kubernetes API.

The certificate is read from --cert-dir (tls.crt and tls.key, as a Secret of type
kubernetes.io/tls is mounted) and read again whenever it changes, or followed in the
Secret of --certificate-secret, where the controller keeps it. On SIGTERM the
readiness fails, requests are answered for --shutdown-delay more, and then those that
were accepted are finished.

The configuration file is read again whenever it changes. One that is wrong is refused
and the last good one stays in force; the metric dra_steward_config_load_failed and the
log say so.`,
		Example: `  # Development: make a certificate for this host; ca.crt goes into caBundle.
  dra-steward serve --cert-dir ./tls --self-signed localhost,127.0.0.1

  # In a cluster, as the chart does it:
  dra-steward serve --config /etc/dra-steward/config.yaml --cert-dir /etc/dra-steward/tls`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), streams, o) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "configuration file with the site's limits and defaults (default: the API server's limits)")
	f.StringVar(&o.certDir, "cert-dir", "/etc/dra-steward/tls", "folder with tls.crt and tls.key")
	f.StringVar(&o.certificateSecret, "certificate-secret", "", "Secret (namespace/name) with tls.crt and tls.key, followed in place of --cert-dir; it need not exist yet")
	f.StringVar(&o.clientCA, "client-ca", "", "file with the certificate authorities of API servers; connections without a client certificate of one of them are refused (default: all connections are accepted)")
	f.StringSliceVar(&o.selfSigned, "self-signed", nil, "for development: make a certificate for these host names and addresses if --cert-dir has none")
	f.StringVar(&o.address, "address", ":9443", "address for admission requests (HTTPS)")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address for /healthz and /readyz (HTTP); empty switches it off")
	f.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address for /metrics (HTTP); empty switches it off")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", 5*time.Second, "how long to go on answering after SIGTERM, until API servers know that we are going")
	clusterFlags(f, &o)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for --live-data, --guard, --pod-deletions, --policy-namespace and --certificate-secret (default: the cluster that this runs in)")
	f.StringVar(&o.logLevel, "log-level", "info", "least level to log: debug, info (with denials and warnings), warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "how to log to standard error: json or text")
	recordingFlags(f, &o)
	complete(c, "log-level", []string{"debug", "info", "warn", "error"})
	complete(c, "log-format", []string{"json", "text"})
	return c
}

func serve(ctx context.Context, streams Streams, o serveOptions) error {
	log, err := newLogger(streams, o)
	if err != nil {
		return err
	}
	if o.selfSigned != nil && o.certificateSecret == "" {
		if err := webhook.SelfSigned(o.certDir, o.selfSigned); err != nil {
			return fmt.Errorf("--self-signed: %w", err)
		}
	}
	registry := prometheus.NewRegistry()
	recorded, err := o.recording(registry, log)
	if err != nil {
		return err
	}
	defer recorded.end()
	world, err := o.world(registry, log)
	if err != nil {
		return err
	}
	site, err := o.site(ctx, world, registry, log)
	if err != nil {
		return err
	}
	if err := o.furnish(site, world, registry, log); err != nil {
		return err
	}
	certificate, err := o.certificate(log)
	if err != nil {
		return err
	}
	server := &webhook.Server{
		Mutating:      webhook.Mutating(site.reviewer, log, recorded.metrics, recorded.options...),
		Validating:    site.validating(recorded.metrics, recorded.options...),
		Guarding:      site.guarding(recorded.metrics, recorded.options...),
		Pods:          webhook.ExtendedResources(site.reviewer, log, recorded.metrics, recorded.options...),
		CertDir:       o.certDir,
		Certificate:   certificate,
		ShutdownDelay: o.shutdownDelay,
		ClientCA:      o.clientCA,
		Bounds: webhook.Bounds{
			Bytes:  bodyMemory(limitMemory()),
			System: func(user string) bool { return site.reviewer().SystemUser(user) },
		},
		Metrics:       recorded.metrics,
		Log:           log,
	}
	if err := registerExpiry(registry, server); err != nil {
		return err
	}
	return serveAll(ctx, server, world, site, registry, o, log)
}

// world is what the rules see beside an object, nil without --live-data.
func (o serveOptions) world(registry *prometheus.Registry, log logr.Logger) (*informed, error) {
	if !o.liveData {
		return nil, nil
	}
	return newInformed(o.kubeconfig, registry, log)
}

// evaluationTime is how long the selectors of one write are evaluated at most.
const evaluationTime = 50 * time.Millisecond

// site is what the configuration file says, and what comes of its changes.
func (o serveOptions) site(ctx context.Context, world *informed, registry *prometheus.Registry, log logr.Logger) (*configured, error) {
	site := &configured{path: o.config, log: log, complete: func(*review.Reviewer) {}, minor: func() int { return 0 }}
	if world != nil {
		evaluations := &validate.Evaluations{}
		site.minor = world.server.minor
		site.complete = func(r *review.Reviewer) {
			r.World, r.Facts, r.Templates, r.Evaluations = world, world.facts, world.templates, evaluations
			r.SelectorTime = evaluationTime
		}
	}
	sources, err := policySources(o.policies)
	if err != nil {
		return nil, err
	}
	if site.set, err = compilePolicies(ctx, sources); err != nil {
		return nil, err
	}
	if site.metrics, err = newConfigMetrics(registry, site.reviewer); err != nil {
		return nil, err
	}
	if o.policyNamespace != "" {
		site.policies, err = o.configMaps(site, sources, registry)
		if err != nil {
			return nil, err
		}
	}
	return site, site.start(time.Now())
}

// configMaps follow the policies of a namespace.
func (o serveOptions) configMaps(site *configured, sources []policy.Source, registry *prometheus.Registry) (*policyConfigMaps, error) {
	metrics, err := newPolicyMetrics(registry)
	if err != nil {
		return nil, err
	}
	return newPolicyConfigMaps(&policyConfigMaps{
		namespace: o.policyNamespace, statusName: o.policyStatus, sources: sources, use: site.usePolicies, agrees: site.agrees,
		log: site.log, metrics: metrics}, o.kubeconfig)
}

// serveAll serves admission, health and metrics. The latter two stay up until
// admission is done, so that probes see how it ends.
func serveAll(ctx context.Context, server *webhook.Server, world *informed, site *configured, registry *prometheus.Registry, o serveOptions, log logr.Logger) error {
	at, err := listenAll(map[string]string{
		"--address": o.address, "--health-address": o.healthAddress, "--metrics-address": o.metricsAddress,
	})
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(background)
	group.Go(func() error {
		return serveHTTP(failed, at["--health-address"], healthHandler(server, world, site))
	})
	group.Go(func() error { return serveHTTP(failed, at["--metrics-address"], site.metricsHandler(registry)) })
	group.Go(func() error { return site.run(failed) })
	if world != nil {
		group.Go(func() error { return world.run(failed) })
	}
	if site.policies != nil {
		group.Go(func() error { return site.policies.run(failed) })
	}
	if site.guard != nil {
		group.Go(func() error { return site.guard.run(failed) })
	}
	admission, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(failed, cancel)
	group.Go(func() error {
		defer stop()
		log.Info("serving admission requests", "address", addressOf(at["--address"]),
			"health", addressOf(at["--health-address"]), "metrics", addressOf(at["--metrics-address"]))
		return server.Serve(admission, at["--address"])
	})
	return group.Wait()
}

// listenAll opens the addresses of the flags, all or none; an empty one is left out.
func listenAll(addresses map[string]string) (map[string]net.Listener, error) {
	listeners := map[string]net.Listener{}
	for flag, address := range addresses {
		if address == "" && flag != "--address" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range listeners {
				open.Close()
			}
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		listeners[flag] = listener
	}
	return listeners, nil
}

// addressOf is where a listener listens, which differs from its flag for port 0.
func addressOf(listener net.Listener) string {
	if listener == nil {
		return "off"
	}
	return listener.Addr().String()
}

// serveHTTP serves plain HTTP on listener until ctx ends; nothing if it is nil.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	if listener == nil {
		return nil
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", listener.Addr(), err)
	}
	return nil
}

// newLogger makes the logger of the program, which controller-runtime uses as well.
func newLogger(streams Streams, o serveOptions) (logr.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: must be debug, info, warn or error", o.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch o.logFormat {
	case "json":
		handler = slog.NewJSONHandler(streams.Err, options)
	case "text":
		handler = slog.NewTextHandler(streams.Err, options)
	default:
		return logr.Logger{}, fmt.Errorf("--log-format %q: must be json or text", o.logFormat)
	}
	log := logr.FromSlogHandler(handler)
	ctrllog.SetLogger(log)
	return log, nil
}
