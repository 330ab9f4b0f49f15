package server_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
)

// after is how long a costly request may be felt by others.
const after = 2 * time.Second

// TestCostlyRequestsEnd: two seconds after a costly request, the claims of another tenant take at most twice as long as
// before, in mode enforce. The webhook has one core, the tenants have the others. DRA_STEWARD_LONG sends all requests,
// otherwise one of each kind is.
func TestCostlyRequestsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is set: this test measures claims for half a minute; make test runs it")
	}
	if _, err := exec.LookPath("taskset"); err != nil || runtime.NumCPU() < 2 {
		t.Skipf("gives the webhook and its tenants cores of their own, which needs two cores (%d here) and taskset of util-linux (missing: %t)", runtime.NumCPU(), err != nil)
	}
	file := filepath.Join(t.TempDir(), "steward.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\nmode: enforce\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config="+file)
	pin(t, p.pid, "0")
	pin(t, os.Getpid(), fmt.Sprintf("1-%d", runtime.NumCPU()-1))
	t.Cleanup(func() { pin(t, os.Getpid(), fmt.Sprintf("0-%d", runtime.NumCPU()-1)) })
	honest, attacker := p.client(t), p.client(t)
	p.others(t, honest, after) // the first ones compile
	for name, requests := range costlyRequests() {
		if os.Getenv("DRA_STEWARD_LONG") == "" {
			n := rand.Intn(len(requests))
			name, requests = fmt.Sprintf("%s, number %d", name, n), requests[n:n+1]
		}
		for i, request := range requests {
			if before, now := p.felt(t, honest, attacker, request); now > twice(before) {
				t.Errorf("%s, %d: p99 of others %s before, %s two seconds after", name, i, before, now)
			}
		}
	}
}

// tries is how often a request is sent: other programs of the machine make claims slow too, but not each time.
const tries = 3

// felt sends a request, and returns the p99 of others before and after of the first time that it is at most twice as long,
// or else of the last time.
func (p *process) felt(t *testing.T, honest, attacker *http.Client, request any) (before, now time.Duration) {
	t.Helper()
	for range tries {
		before = p.others(t, honest, time.Second)
		for n := range 4 {
			go func() { // whether it is answered does not matter
				_ = p.ask(attacker, fmt.Sprint("attacker-", n%2), rand.String(5), request)
			}()
		}
		<-time.After(after)
		if now = p.others(t, honest, time.Second); now <= twice(before) {
			break
		}
	}
	return before, now
}

// twice is what is allowed.
func twice(before time.Duration) time.Duration { return 2*before + 5*time.Millisecond }

// others returns the p99 of small claims of another tenant, sent one after the other for a time.
func (p *process) others(t *testing.T, client *http.Client, long time.Duration) time.Duration {
	t.Helper()
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < long; {
		sent := time.Now()
		if err := p.ask(client, "honest", strconv.Itoa(len(took)), selecting(fmt.Sprintf("device.driver == 'gpu-%s.example.com'", rand.String(5)))); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(sent))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// costlyRequests are claims, by kind.
func costlyRequests() map[string][]any {
	all := map[string][]any{}
	for _, number := range []string{`"1e4194967296"`, `"1\u0065-999999999"`, `1e-999999999`, `"1E+4292967296"`} {
		all["parameters"] = append(all["parameters"], map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"devices": map[string]any{"config": []any{map[string]any{"opaque": map[string]any{"driver": "gpu.nvidia.com", "parameters": rawNumber(number)}}}}}})
	}
	for kind, expressions := range map[string][]string{"quantities": hostile.Quantities(), "calls": hostile.Calls(), "compilations": hostile.Compilations()} {
		for _, expression := range expressions {
			all[kind] = append(all[kind], selecting(expression))
		}
	}
	return all
}

// rawNumber is a number in the parameters of a driver as it is written.
type rawNumber string

// MarshalJSON returns parameters with the number.
func (n rawNumber) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultPinnedDeviceMemoryLimit":%s}}}`, string(n)), nil
}

// selecting is a claim with a selector.
func selecting(expression string) *resourceapi.ResourceClaim {
	claim := largeClaim("", 0, 0)
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return claim
}

// pin lets all threads of a process run on these cores only.
func pin(t *testing.T, pid int, cores string) {
	t.Helper()
	if output, err := exec.Command("taskset", "-a", "-c", "-p", cores, strconv.Itoa(pid)).CombinedOutput(); err != nil {
		t.Fatalf("taskset: %v\n%s", err, output)
	}
}
