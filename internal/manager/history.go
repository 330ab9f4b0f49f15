package manager

import (
	"errors"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/devicehistory"
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
		ConfigMaps: e.quiet.CoreV1().ConfigMaps(o.namespace), Prefix: devicehistory.Prefix(o.Name),
		Tracker: e.evictor.Tracker, Claims: e.claims, Pods: e.pods, Drains: e.drains, Reactions: e.reactions,
		Metrics: metrics, Logger: log,
	})
	if err != nil {
		return err
	}
	e.add("devicehistory", controller.Run)
	return nil
}
