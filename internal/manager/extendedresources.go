package manager

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedclaims"
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

// addExtendedClaims lets the leader check the claims that the scheduler creates for extended
// resources, if the options ask for it.
func (o Options) addExtendedClaims(e *eviction, _ *rest.Config, _ *prometheus.Registry, log logr.Logger) error {
	if !o.extendedClaims {
		return nil
	}
	e.add("extendedclaims", func(ctx context.Context) error {
		site, err := newSite(ctx, o, e, log)
		if err != nil {
			return err
		}
		controller := extendedclaims.New(extendedclaims.Options{
			Pods: e.pods, Claims: e.claims, Ready: site.ready, Check: site.check, Logger: log,
			Create: func(ctx context.Context, event *corev1.Event) error {
				_, err := e.quiet.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
				return err
			}})
		var following sync.WaitGroup
		defer following.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		following.Go(func() { site.run(ctx) })
		return controller.Run(ctx)
	})
	return nil
}
