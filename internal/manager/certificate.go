package manager

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/certificate"
)

// certificateOptions are those of the certificate that the leader keeps for the webhook.
type certificateOptions struct {
	secret, configurations string
	settings               certificate.Times
}

func (o *certificateOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.secret, "certificate-secret", "", "manage the webhook's certificate in the Secret of this name in --namespace; empty: do not manage certificates")
	f.StringVar(&o.configurations, "webhook-configurations", "dra-steward", "name of the webhook configurations, for --certificate-secret and --extended-resources")
	f.StringSliceVar(&o.settings.Hosts, "certificate-hosts", nil, "host names of the webhook's certificate, with --certificate-secret")
	cmdutil.DurationVar(f, &o.settings.Validity, "certificate-validity", 90*24*time.Hour, "validity of the webhook's certificate (at least 2h)")
	cmdutil.DurationVar(f, &o.settings.RenewBefore, "certificate-renew-before", 30*24*time.Hour, "how long before its expiry the webhook's certificate is replaced")
	cmdutil.DurationVar(f, &o.settings.WaitAfterChange, "certificate-wait-after-change", 2*time.Minute, "how long a new authority is announced before its use, and an old one after its use")
}

// validate looks at the settings if certificates are kept at all.
func (o certificateOptions) validate() error {
	if o.secret == "" {
		return nil
	}
	return o.settings.Validate()
}

// addCertificates lets the leader keep certificates, if the options say so.
func (o Options) addCertificates(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if o.certificates.secret == "" {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	metrics, err := certificate.NewMetrics(registry)
	if err != nil {
		return err
	}
	rotator, err := certificate.New(certificate.Options{
		Client: client, Namespace: o.namespace, Secret: o.certificates.secret, Configurations: o.certificates.configurations,
		Settings: o.certificates.settings, Metrics: metrics, Logger: log,
	})
	if err != nil {
		return err
	}
	e.add("certificate", rotator.Run)
	return nil
}
