package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/reaction"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// reactionRequests are the requests per second of reactions.
const reactionRequests = 20

// validateReactions says which of the settings make no sense.
func (o Options) validateReactions() error {
	switch {
	case o.reactions && !o.drains:
		return errors.New("--reactions: needs --drains, which drains the devices")
	case o.breakerWindow < 0 || o.breakerWindow > guard.MaxWindow:
		return fmt.Errorf("--threshold-window %s: must be at least 0s (off) and at most %s", o.breakerWindow, guard.MaxWindow)
	}
	return nil
}

// addReactions lets the leader carry out DeviceReactions, if the options ask for it, with the
// informer of drains.
func (o Options) addReactions(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if err := o.validateReactions(); err != nil || !o.reactions {
		return err
	}
	metrics, err := reaction.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reactionRequests, 2*reactionRequests
	client, err := reaction.NewClient(config)
	if err != nil {
		return err
	}
	reactions, nodes := client.Informer(), reaction.NodeConditions(e.client)
	options := reaction.Options{
		API: client, Reactions: reactions, Drains: e.drains, Rules: e.evictor.Rules, Nodes: nodes, Claims: e.claims, Pods: e.pods,
		Tracker: e.evictor.Tracker, Usage: e.usage, Thresholds: *o.thresholds(), Window: o.breakerWindow,
		Metrics: metrics, Logger: log,
	}
	e.add("reaction", func(ctx context.Context) error {
		options.UsageSynced = e.evictor.UsageSynced
		broadcaster := e.broadcaster(ctx)
		defer broadcaster.Shutdown()
		options.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: reaction.FieldManager})
		controller, err := reaction.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return reactions.SetTransform(withoutManagedFields)
}
