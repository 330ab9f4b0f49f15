package manager

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/drain"
	"github.com/dra-steward/dra-steward/internal/controllers/roll"
)

// rollRequests are the requests per second of rolls.
const rollRequests = 20

// addRolls lets the leader carry out DeviceRolls, if the options ask for it, with the informer of
// drains.
func (o Options) addRolls(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if !o.rolls {
		return nil
	}
	if !o.drains {
		return errors.New("--rolls: needs --drains, which drains the devices")
	}
	metrics, err := roll.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = rollRequests, 2*rollRequests
	client, err := roll.NewClient(config)
	if err != nil {
		return err
	}
	rolls := client.Informer()
	options := roll.Options{
		API: client, Rolls: rolls, Nodes: roll.Nodes(e.client), Drains: e.drains, Tracker: e.evictor.Tracker,
		Begun:      drain.Begun{Usage: e.usage, Rules: e.evictor.Rules.GetStore(), Length: o.breakerWindow},
		Thresholds: *o.thresholds(), Metrics: metrics, Logger: log,
	}
	e.add("roll", func(ctx context.Context) error {
		options.UsageSynced = e.evictor.UsageSynced
		broadcaster := e.broadcaster(ctx)
		defer broadcaster.Shutdown()
		options.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: roll.FieldManager})
		controller, err := roll.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return rolls.SetTransform(withoutManagedFields)
}
