package manager

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/controllers/ruleexpiry"
)

// addExpiry lets the leader delete the taint rules whose time is over.
func (o Options) addExpiry(e *eviction, config *rest.Config, _ *prometheus.Registry, log logr.Logger) error {
	if !o.expireRules {
		return nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := resourceapi.SchemeGroupVersion.WithResource("devicetaintrules").GroupResource()
	controller := ruleexpiry.New(ruleexpiry.Options{Rules: e.evictor.Rules, Logger: log, Delete: func(ctx context.Context, name string, uid types.UID, version string) error {
		_, served, err := clusterread.ServedRules(config)
		if err != nil {
			return err
		}
		return client.Resource(resource.WithVersion(served)).Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}})
	e.add("ruleexpiry", controller.Run)
	return nil
}
