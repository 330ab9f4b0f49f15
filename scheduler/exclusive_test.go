package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
