package manager

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedresources"
)

// addExtendedResources lets the leader keep the webhook for the extended resources that
// DeviceClasses declare, if the options ask for it.
func (o Options) addExtendedResources(e *eviction, config *rest.Config, _ *prometheus.Registry, log logr.Logger) error {
	if !o.extendedResources {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	controller, err := extendedresources.New(extendedresources.Options{Client: client, Configuration: o.certificates.configurations, Logger: log})
	if err != nil {
		return err
	}
	e.add("extendedresources", controller.Run)
	return nil
}
