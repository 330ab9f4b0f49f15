package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
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

// The metric that client-go keeps of leader elections, and the name that kube-scheduler gives
// its own, whichever the Lease is.
const (
	leaderMetric = "leader_election_master_status"
	electionName = "kube-scheduler"
)

// leads reports whether this process leads. The Lease does not tell that: another scheduler of
// the same host may hold it.
func leads(gatherer metrics.Gatherer) bool {
	families, _ := gatherer.Gather() // what can be gathered, also with an error
	for _, family := range families {
		if family.GetName() != leaderMetric {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == electionName {
					return metric.GetGauge().GetValue() == 1
				}
			}
		}
	}
	return false
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
