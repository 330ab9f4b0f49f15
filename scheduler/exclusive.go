package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/dra-steward/dra-steward/scheduler/plugin"
)

// The Lease of kube-scheduler, as it is without any flag.
const (
	leaseNamespace = "kube-system"
	leaseName      = "kube-scheduler"
)

// configured returns the configuration that flags lead to, as far as it is looked at here:
// the profiles, and the leader election, where flags come before the file.
func configured(flags *pflag.FlagSet) (*config.KubeSchedulerConfiguration, error) {
	file, err := flags.GetString("config")
	if err != nil {
		return nil, err
	}
	var configuration *config.KubeSchedulerConfiguration
	if file == "" {
		configuration, err = latest.Default()
	} else {
		configuration, err = options.LoadConfigFromFile(klog.Background(), file)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	election := &configuration.LeaderElection
	if flags.Changed("leader-elect") {
		if election.LeaderElect, err = flags.GetBool("leader-elect"); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]*string{
		"leader-elect-resource-name": &election.ResourceName, "leader-elect-resource-namespace": &election.ResourceNamespace,
	} {
		if flags.Changed(name) {
			if *value, err = flags.GetString(name); err != nil {
				return nil, err
			}
		}
	}
	return configuration, nil
}

// election is what the plugin has to know of the leader election; nil without one. The
// identity of kube-scheduler is the name of its host with a UUID.
func election(of componentconfig.LeaderElectionConfiguration) *plugin.Election {
	host, err := os.Hostname()
	if !of.LeaderElect || err != nil { // without a name kube-scheduler does not start
		return nil
	}
	return &plugin.Election{Namespace: of.ResourceNamespace, Name: of.ResourceName, Host: host}
}

// exclusive is nil if no kube-scheduler can be at work at the same time.
func exclusive(election componentconfig.LeaderElectionConfiguration) error {
	switch {
	case !election.LeaderElect:
		return errors.New("leader election is off, so a kube-scheduler could be active at the same time, and the two would allocate devices twice: " +
			"leave --leader-elect on, or, if no other scheduler of the cluster handles pods with ResourceClaims, add --sole-scheduler")
	case election.ResourceNamespace != leaseNamespace || election.ResourceName != leaseName:
		return fmt.Errorf("leader election by the Lease %s/%s does not prevent a kube-scheduler with %s/%s from being active at the same time, and the two would allocate devices twice: "+
			"use that Lease, or, if no other scheduler of the cluster handles pods with ResourceClaims, add --sole-scheduler",
			election.ResourceNamespace, election.ResourceName, leaseNamespace, leaseName)
	default:
		return nil
	}
}
