package server

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/webhook"
)

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

// RegisterExpiry tells when the certificate that is served ends.
func RegisterExpiry(registry prometheus.Registerer, server *webhook.Server) error {
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dra_steward_serving_certificate_expiry_timestamp_seconds",
		Help: "Expiry of the certificate that is served to API servers, as Unix time; 0 while there is none.",
	}, func() float64 {
		if at := server.Expires(); !at.IsZero() {
			return float64(at.Unix())
		}
		return 0
	}))
}
