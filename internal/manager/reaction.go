package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/controllers/devicereaction"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// reactionRequests are the requests per second of reactions.
const reactionRequests = 20

// proofOptions are where the proofs of reactions run.
type proofOptions struct{ Namespace, ServiceAccount string }

// validateReactions says which of the settings make no sense.
func (o Options) validateReactions() error {
	switch {
	case o.reactions && !o.drains:
		return errors.New("--reactions: needs --drains, which drains the devices")
	case o.proofs.Namespace != "" && !o.reactions:
		return errors.New("--proof-namespace: needs --reactions, whose drains are proven")
	case o.proofs.Namespace != "" && o.proofs.ServiceAccount == "":
		return errors.New("--proof-service-account: must not be empty")
	case len(o.restartDrivers) > 0 && !o.reactions:
		return errors.New("--restart-drivers: needs --reactions")
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
	metrics, err := devicereaction.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reactionRequests, 2*reactionRequests
	client, err := ownclient.NewReactionClient(config)
	if err != nil {
		return err
	}
	nodes, err := e.nodes()
	if err != nil {
		return err
	}
	reactions := client.Informer()
	e.reactions = reactions
	options := devicereaction.Options{
		API: client, Reactions: reactions, Drains: e.drains, Nodes: nodes, Claims: e.claims, Pods: e.pods,
		Tracker: e.evictor.Tracker, Usage: e.usage, Beginnings: e.beginnings, Thresholds: *o.thresholds(), Window: o.breakerWindow,
		Metrics: metrics, Logger: log,
	}
	core, err := clientFor(config, reactionRequests)
	if err != nil {
		return err
	}
	if len(o.restartDrivers) > 0 {
		options.Restarts = &devicereaction.RestartOptions{Client: core, Namespaces: o.restartDrivers}
	}
	if o.proofs.Namespace != "" {
		api := devicereaction.ProofClient{Client: core, Namespace: o.proofs.Namespace}
		options.Proofs = &devicereaction.ProofOptions{API: api, Namespace: o.proofs.Namespace, ServiceAccount: o.proofs.ServiceAccount, Jobs: api.Jobs()}
	}
	e.addRecording("devicereaction", ownclient.ReactionManager, func(ctx context.Context, recorder record.EventRecorder) error {
		options.UsageSynced, options.Recorder = slices.Concat(e.evictor.UsageSynced, e.begunSynced), recorder
		controller, err := devicereaction.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return reactions.SetTransform(withoutManagedFields)
}
