// Package controllers lists the controllers of dra-steward. Each has a folder, a line in
// [All], and a function in internal/manager that builds it.
package controllers

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// A Controller works while its replica of the program leads.
type Controller interface {
	// Name is that of the controller in [All].
	Name() string
	// Run works until ctx ends.
	Run(ctx context.Context) error
}

// Named gives a name to what runs.
func Named(name string, run func(context.Context) error) Controller { return named{name, run} }

type named struct {
	name string
	run  func(context.Context) error
}

func (n named) Name() string                  { return n.name }
func (n named) Run(ctx context.Context) error { return n.run(ctx) }

// Run runs controllers until ctx ends or one fails, and then waits for all.
func Run(ctx context.Context, all []Controller) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range all {
		group.Go(func() error {
			// An informer that has ended refuses the handlers of a controller that starts.
			if err := c.Run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("controller %s: %w", c.Name(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// A Description is what a controller does and what it needs.
type Description struct {
	// Name is that of its folder.
	Name string
	// Folder is below the root of the module.
	Folder string
	// Does is one sentence.
	Does string
	// Flag of "dra-steward controller" switches it on.
	Flag string
	// Writes are its rights to write, as docs/security.md lists them.
	Writes []string
}

// All returns the controllers.
func All() []Description {
	return []Description{
		{"capacitymetrics", "internal/controllers/capacitymetrics", "Counts the devices that are left, and the claims that fit, for metrics.", "capacity-metrics", nil},
		{"certificate", "internal/controllers/certificate", "Creates and renews the certificate of the webhook, and announces its authority.", "certificate-secret",
			[]string{secrets, configurations}},
		{"devicehistory", "internal/controllers/devicehistory", "Records actions on devices, with author and reason, and their holders.", "history",
			[]string{"create configmaps", histories}},
		{"devicedrain", "internal/controllers/devicedrain", "Executes DeviceDrains: cordons devices and evicts their pods within budgets and rate.", "drains",
			[]string{"update devicedrains/status.dra-steward.io", "create, patch, delete devicetaintrules.resource.k8s.io", "create, patch events", "create pods/eviction", "delete pods"}},
		{"eviction", "pkg/evictor", "Deletes pods that do not tolerate the NoExecute taints of their devices.", "mode",
			[]string{"patch pods/status", "delete pods", "patch devicetaintrules/status.resource.k8s.io", "create devicetaintrules.resource.k8s.io",
				"get, delete devicetaintrules.resource.k8s.io named " + taints.ProbeName, "create, patch events",
				"create configmaps", "get, patch configmaps named dra-steward-controller-evictions"}},
		{"extendedclaims", "internal/controllers/extendedclaims", "Creates an event on each pod whose claim for extended resources is refused.", "extended-claims",
			[]string{"create events"}},
		{"extendedresources", "internal/controllers/extendedresources", "Sends pods to the webhook that ask for the extended resources of DeviceClasses.", "extended-resources",
			[]string{configurations}},
		{"materialize", "internal/controllers/materialize", "Updates slices that differ from the result of ResourceSlicePatches.", "patches",
			[]string{"patch resourceslices.resource.k8s.io", records}},
		{"patchstatus", "internal/controllers/patchstatus", "Writes the status of ResourceSlicePatches.", "patch-status",
			[]string{"patch resourceslicepatches/status.dra-steward.io", "create events"}},
		{"policystatus", "internal/controllers/policystatus", "Writes which policies the replicas of the webhook have loaded.", "policy-status",
			[]string{"create configmaps", "get, update configmaps named dra-steward-policies", "create, patch events"}},
		{"rulebegin", "internal/controllers/rulebegin", "Records when each DeviceTaintRule began to evict.", "rule-begin",
			[]string{"patch devicetaintrules/status.resource.k8s.io"}},
		{"devicereaction", "internal/controllers/devicereaction", "Executes DeviceReactions: creates DeviceDrains for devices that are sick, within limits.", "reactions",
			[]string{"update devicereactions/status.dra-steward.io", "create, update, delete devicedrains.dra-steward.io", "create, patch events",
				"list, watch, create, delete jobs.batch", "create resourceclaims.resource.k8s.io"}},
		{"deviceroll", "internal/controllers/deviceroll", "Executes DeviceRolls: drains the consumers of a driver node by node, and replaces the driver last.", "rolls",
			[]string{"update devicerolls/status.dra-steward.io", "create, update, delete devicedrains.dra-steward.io", "create, patch events", "patch nodes",
				"delete pods", "get, create, delete pods", "get, create, delete resourceclaims.resource.k8s.io"}},
		{"ruleexpiry", "internal/controllers/ruleexpiry", "Deletes DeviceTaintRules whose time is over.", "expire-rules",
			[]string{"delete devicetaintrules.resource.k8s.io"}},
	}
}

const (
	secrets        = "list, watch, create, patch secrets named dra-steward-certificate"
	configurations = "list, watch, patch mutatingwebhookconfigurations.admissionregistration.k8s.io, validatingwebhookconfigurations.admissionregistration.k8s.io named dra-steward"
	histories      = "get, update configmaps named " +
		"dra-steward-controller-history-0, dra-steward-controller-history-1, dra-steward-controller-history-2, " +
		"dra-steward-controller-history-3, dra-steward-controller-history-4, dra-steward-controller-history-5, " +
		"dra-steward-controller-history-6, dra-steward-controller-history-7, dra-steward-controller-history-8, " +
		"dra-steward-controller-history-9"
	records = "get, patch, delete configmaps named " +
		"dra-steward-controller-patches-0, dra-steward-controller-patches-1, dra-steward-controller-patches-2, " +
		"dra-steward-controller-patches-3, dra-steward-controller-patches-4, dra-steward-controller-patches-5, " +
		"dra-steward-controller-patches-6, dra-steward-controller-patches-7"
)

// Leader returns the rights to write of the program itself: the election of the leader, and
// the check of who reads metrics.
func Leader() []string {
	return []string{
		"create leases.coordination.k8s.io", "get, update leases.coordination.k8s.io named dra-steward-controller",
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
	}
}
