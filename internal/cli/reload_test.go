package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReload changes the configuration of a running webhook: to another, to a wrong one
// and back, as the kubelet changes a mounted ConfigMap.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	put := func(text string) {
		t.Helper()
		temporary := filepath.Join(t.TempDir(), "new")
		if err := os.WriteFile(temporary, []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, path); err != nil {
			t.Fatal(err)
		}
	}
	put("limits: {tolerationsPerRequest: 5}")
	s := serve(t, "--shutdown-delay", "0s", "--config", path)
	metric := func(line string) {
		t.Helper()
		waitFor(t, line, func() string { return get(t, "http://"+s.Metrics+"/metrics", http.StatusOK) })
	}
	answer := func(part string) {
		t.Helper()
		waitFor(t, part, func() string { return s.review(t) })
	}
	answer("at most 5")
	metric("dra_steward_config_load_failed 0")
	metric(`dra_steward_config_loads_total{result="success"} 1`)

	put("limits: {tolerationsPerRequest: 6}\nexemptions: [{rules: ['*'], users: [joe], reason: moved, expires: 2020-01-01T00:00:00Z}]")
	answer("at most 6")
	metric("dra_steward_config_exemptions_expired 1")

	put("limits: {tolerationsPerRequest: 99}")
	metric("dra_steward_config_load_failed 1")
	metric(`dra_steward_config_loads_total{result="failure"} 1`)
	answer("at most 6")
	put("limits: {tolerationsPerRequest: 7}\npolicies: {modes: {SITE-001: deny}}")
	metric(`dra_steward_config_loads_total{result="failure"} 2`)
	answer("at most 6")

	put("limits: {tolerationsPerRequest: 6}\nexemptions: [{rules: ['*'], users: [joe], reason: moved, expires: 2020-01-01T00:00:00Z}]")
	metric("dra_steward_config_load_failed 0")
	put("exemptions: [{rules: [request-tolerations-max], users: [jane], reason: migration, expires: 2099-01-01T00:00:00Z}]")
	answer(`"allowed":true`)
	metric("dra_steward_config_exemptions_expired 0")
	metric("dra_steward_config_next_exemption_expiry_timestamp_seconds 4.0709088e+09")

	s.stop()
	<-s.code
	log := <-s.log
	for _, part := range []string{"refused a new configuration; the last valid one stays in force", "config.yaml:3:10: limits.tolerationsPerRequest: Invalid value: 99",
		"policies.modes[SITE-001]", "loaded a new configuration", "an exemption has expired"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
}

// waitFor waits until what get returns contains part.
func waitFor(t *testing.T, part string, get func() string) {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for last := ""; ; {
		if last = get(); strings.Contains(last, part) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(fmt.Sprintf("no %q within 2 minutes: ", part) + last)
		}
	}
}
