package main

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/dra-steward/dra-steward/scheduler/plugin"
)

// preemptsFirst is true if a profile evicts pods for one that cannot be scheduled before the
// plugin could take back a claim without a user. In the profiles of kube-scheduler
// DynamicResources comes before DefaultPreemption for that reason.
func preemptsFirst(profile config.KubeSchedulerProfile) bool {
	if profile.Plugins == nil {
		return false
	}
	everywhere := profile.Plugins.MultiPoint.Enabled
	return slices.ContainsFunc([]config.PluginSet{profile.Plugins.PostFilter, profile.Plugins.PodGroupPostFilter}, func(point config.PluginSet) bool {
		// Those of the extension point itself come before those of all.
		order := slices.Concat(point.Enabled, everywhere)
		ours, preemption := position(order, plugin.Name), position(order, names.DefaultPreemption)
		return ours >= 0 && preemption >= 0 && preemption < ours
	})
}

func position(order []config.Plugin, name string) int {
	return slices.IndexFunc(order, func(p config.Plugin) bool { return p.Name == name })
}
