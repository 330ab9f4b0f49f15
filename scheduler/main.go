// Command dra-steward-scheduler is kube-scheduler 1.37 with one more plugin,
// PatchedDynamicResources: pods land on devices by the attributes and capacities that
// ResourceSlicePatches (KEP-5027) give them. All flags and files of kube-scheduler work.
//
// It takes the place of kube-scheduler, or waits for its Lease. A second scheduler that
// allocates devices at the same time would give some of them away twice; see [exclusive].
package main

import (
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // leads reads a metric of it
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/dra-steward/dra-steward/scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(command()))
}

func command() *cobra.Command {
	factory := &plugin.Factory{Regarding: ownPod(os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME"))}
	command := app.NewSchedulerCommand(app.WithPlugin(plugin.Name, factory.New))
	command.Use = "dra-steward-scheduler"
	command.Long = `kube-scheduler with one additional plugin: with ` + plugin.Name + ` instead of
DynamicResources, it allocates devices by the attributes and capacities that
ResourceSlicePatches set. Everything else is as in kube-scheduler.

Two schedulers that allocate devices at the same time allocate some of them twice.
Therefore this one refuses to start unless it takes part in the leader election of
kube-scheduler (Lease kube-system/kube-scheduler, the default), or --sole-scheduler
asserts that no other scheduler of the cluster handles pods with ResourceClaims.`
	sole := command.Flags().Bool("sole-scheduler", false, "no other scheduler of the cluster handles pods with ResourceClaims")
	setGates := command.PersistentPreRunE
	command.PersistentPreRunE = func(command *cobra.Command, args []string) error {
		if err := setGates(command, args); err != nil {
			return err
		}
		configuration, err := configured(command.Flags())
		if err != nil {
			return err
		}
		for _, profile := range configuration.Profiles {
			factory.Profiles = append(factory.Profiles, profile.SchedulerName)
			if preemptsFirst(profile) {
				klog.Background().Error(nil, "Pods are preempted although deallocating an unused claim would be sufficient: "+
					"disable DefaultPreemption in multiPoint, and enable it again behind "+plugin.Name, "profile", profile.SchedulerName)
			}
		}
		if configuration.LeaderElection.LeaderElect {
			factory.Leads = func() bool { return leads(legacyregistry.DefaultGatherer) }
		}
		if *sole {
			return nil
		}
		return exclusive(configuration.LeaderElection)
	}
	return command
}

// ownPod is what events are about; nil if the Pod is not known.
func ownPod(namespace, name string) runtime.Object {
	if namespace == "" || name == "" {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name}
}
