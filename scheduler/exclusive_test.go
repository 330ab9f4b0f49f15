package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// What must not run beside a kube-scheduler does not start, whether flags or the file say
// so; flags come before the file.
func TestExclusive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"defaults":               {},
		"without election":       {args: []string{"--leader-elect=false"}, want: "leader election is off"},
		"another Lease":          {args: []string{"--leader-elect-resource-name=mine"}, want: "Lease kube-system/mine"},
		"another namespace":      {args: []string{"--leader-elect-resource-namespace=mine"}, want: "Lease mine/kube-scheduler"},
		"file":                   {args: []string{"--config=" + file}, want: "leader election is off"},
		"flag before file":       {args: []string{"--config=" + file, "--leader-elect=true"}},
		"no such file":           {args: []string{"--config=/nowhere"}, want: "configuration: open /nowhere"},
		"alone without election": {args: []string{"--leader-elect=false", "--sole-scheduler"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := command()
			if err := command.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			err := command.PersistentPreRunE(command, nil)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLeads: a process leads if client-go says so of it, by the metric of its own election.
func TestLeads(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	if leads(registry) {
		t.Error("a process leads before its election begins")
	}
	gauge := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: leaderMetric}, []string{"name"})
	registry.MustRegister(gauge)
	gauge.WithLabelValues("another").Set(1)
	if leads(registry) {
		t.Error("a process leads by another election")
	}
	for _, want := range []bool{false, true, false} {
		gauge.WithLabelValues(electionName).Set(map[bool]float64{true: 1}[want])
		if got := leads(registry); got != want {
			t.Errorf("leads: %t, want %t", got, want)
		}
	}
}

// TestLeaderMetric: an election sets the metric in the registry of this program.
func TestLeaderMetric(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Client: fake.NewClientset().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "a"}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Name: electionName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(started) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	defer running.Wait()
	defer cancel()
	<-started
	if !leads(legacyregistry.DefaultGatherer) {
		t.Error("the leader does not lead")
	}
}
