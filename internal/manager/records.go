package manager

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/controllers/devicehistory"
	"github.com/dra-steward/dra-steward/internal/controllers/policystatus"
	"github.com/dra-steward/dra-steward/internal/history"
)

// addHistory lets the leader record the history of devices, if the options ask for it, with the
// informers of drains and reactions, if there are any. It is added after these.
func (o Options) addHistory(e *eviction, _ *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	switch {
	case !o.history:
		return nil
	case o.namespace == "":
		return errors.New("--history: needs --namespace, where the ConfigMaps are")
	}
	metrics, err := devicehistory.NewMetrics(registry)
	if err != nil {
		return err
	}
	controller, err := devicehistory.New(devicehistory.Options{
		ConfigMaps: e.quiet.CoreV1().ConfigMaps(o.namespace), Prefix: history.ConfigMapPrefix(o.Name),
		Tracker: e.evictor.Tracker, Claims: e.claims, Pods: e.pods, Drains: e.drains, Reactions: e.reactions,
		Metrics: metrics, Logger: log,
	})
	if err != nil {
		return err
	}
	e.add("devicehistory", controller.Run)
	return nil
}

// policyStatusInterval is how often the replicas of the webhook are asked for their
// policies: as long as a person waits for the effect of an edit.
const policyStatusInterval = 5 * time.Second

func (o *Options) policyFlags(f *pflag.FlagSet) {
	f.StringVar(&o.policyStatus, "policy-status", "", "name of the ConfigMap for the state of the webhook's policies; empty: none")
	f.StringVar(&o.webhookSelector, "webhook-selector", "app.kubernetes.io/name=dra-steward,app.kubernetes.io/component=webhook", "label selector of the webhook's pods, which report that state")
}

// addPolicyStatus lets the leader write down which policies the replicas of the webhook have
// loaded.
func (o Options) addPolicyStatus(e *eviction, _ *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if o.policyStatus == "" {
		return nil
	}
	metrics, err := policystatus.NewMetrics(registry)
	if err != nil {
		return err
	}
	e.add("policystatus", func(ctx context.Context) error {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: e.quiet.CoreV1().Events(o.namespace)})
		collector := policystatus.Collector{
			Client: e.quiet, Namespace: o.namespace, Name: o.policyStatus, Selector: o.webhookSelector,
			Interval: policyStatusInterval, Secure: o.metricsSecure, Metrics: metrics, Log: log,
			Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dra-steward-policies"}),
		}
		return collector.Run(ctx)
	})
	return nil
}
