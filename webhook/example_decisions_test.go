package webhook_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/webhook"
)

// A handler logs every denial and a tenth of the warnings, at most five a second.
func ExampleNewDecisions() {
	decisions, err := webhook.NewDecisions(webhook.DecisionSettings{Denied: 1, Warned: 0.1, PerSecond: 5}, logr.Discard(), prometheus.NewRegistry())
	fmt.Println(decisions != nil, err)
	_, err = webhook.NewDecisions(webhook.DecisionSettings{Warned: 10}, logr.Discard(), prometheus.NewRegistry())
	fmt.Println(err)
	// Output:
	// true <nil>
	// the fraction of warned requests to log is 10: must be 0 to 1
}

// A server without certificates of its own writes self-signed ones.
func ExampleSelfSigned() {
	dir, err := os.MkdirTemp("", "tls")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := webhook.SelfSigned(dir, []string{"dra-steward.dra-steward.svc"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{webhook.AuthorityFile, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		_, err := os.Stat(filepath.Join(dir, name))
		fmt.Println(name, err == nil)
	}
	// Output:
	// ca.crt true
	// tls.crt true
	// tls.key true
}
