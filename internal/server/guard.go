package server

import (
	"errors"
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/webhook"
)

// count gives the reloader the claims and pods of the cluster where a handler needs them.
func (o serveOptions) count(site *reloader, clusterView *ClusterView) (err error) {
	if o.guard || o.podDeletions || o.driverPods {
		site.guards, site.deletions = o.guard, o.podDeletions
		var published func() iter.Seq[*resourceapi.ResourceSlice]
		if clusterView != nil {
			published = clusterView.Slices
		}
		options := impact.Options{Kubeconfig: o.kubeconfig, Published: published, Guards: o.guard, Conditions: o.guard && o.reactions}
		if clusterView != nil {
			options.View = clusterView
		}
		if o.foresight {
			if clusterView == nil || !o.guard {
				return errors.New("--guard-foresight: needs --guard and --live-data")
			}
			options.Foresight = true
			clusterView.watchGates()
		}
		site.guard, err = impact.New(options)
		if err == nil && o.guard && clusterView != nil {
			err = site.guard.FollowRules(clusterView.rules)
		}
		if err == nil && o.driverPods {
			site.drivers, err = newDriverPods(o.kubeconfig, site.guard)
		}
	}
	return err
}

// validating denies and warns, and checks policies in ConfigMaps where the webhook reads these.
func (c *reloader) validating(o webhook.Options) admission.Handler {
	handler := webhook.Validating(c.reviewer, o)
	if c.deletions {
		handler = webhook.PodDeletions(handler, c.guard, c.reviewer, o)
	}
	if c.drivers != nil {
		handler = webhook.DriverPodDeletions(handler, c.drivers, c.reviewer, o)
	}
	if c.policies != nil {
		handler = webhook.PolicyConfigMaps(handler, c.policies.Check, o)
	}
	return handler
}

// guarding checks the impact of a write where the guard is on.
func (c *reloader) guarding(o webhook.Options) admission.Handler {
	if !c.guards {
		return nil
	}
	return webhook.Guarding(c.reviewer, o)
}
