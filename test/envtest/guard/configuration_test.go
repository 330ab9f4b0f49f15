package guard_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// limit are the values of a site that allows n devices in a claim, and refuses a write
// that the webhook does not answer.
func limit(n int) map[string]any {
	return map[string]any{"limits": map[string]any{"devicesPerClaim": n}, "webhooks": map[string]any{"claims": map[string]any{"failurePolicy": "Fail"}}}
}

// TestConfigurationUnderLoad changes the configuration while claims are written: each is
// answered, each by one configuration, and a wrong one changes nothing.
func TestConfigurationUnderLoad(t *testing.T) {
	g, c, _ := guarded(t, limit(4))
	claims := c.ResourceV1().ResourceClaims(namespace)
	six := claim("loaded")
	six.Spec.Devices.Requests[0].Exactly.Count = 6
	six.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeExactCount
	write := func(ctx context.Context) (allowed bool) {
		_, err := claims.Create(ctx, six.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}) // encoding writes into it
		if err != nil && !strings.Contains(err.Error(), "claim-devices-max") && ctx.Err() == nil {
			t.Errorf("a write got no answer: %v", err)
		}
		return err == nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var mutex sync.Mutex
	written, changes := 0, 0
	for range 4 {
		group.Go(func() {
			last := false
			for ctx.Err() == nil {
				allowed := write(ctx)
				mutex.Lock()
				written++
				if allowed != last && ctx.Err() == nil {
					changes++
				}
				mutex.Unlock()
				last = allowed
			}
		})
	}
	until := func(what string, allowed bool) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, error) { return write(ctx) == allowed, nil })
	}
	metric := func(line string) {
		t.Helper()
		eventually(t, line, func(ctx context.Context) (bool, error) {
			text, err := g.Metrics(ctx)
			return strings.Contains(text, line), err
		})
	}
	steady := func(allowed bool) {
		t.Helper()
		for range 20 {
			if write(t.Context()) != allowed {
				t.Errorf("a write is allowed: %t, want %t as before", !allowed, allowed)
			}
		}
	}

	steady(false)
	configure(t, g.Configure(limit(8)))
	until("six devices are allowed", true)
	steady(true)
	configure(t, g.ConfigureText("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\nlimits: {devicesPerClaims: 1}\n"))
	metric("dra_steward_config_load_failed 1")
	steady(true)
	configure(t, g.Configure(limit(4)))
	until("six devices are too many", false)
	metric("dra_steward_config_load_failed 0")
	steady(false)
	stop()
	group.Wait()
	t.Logf("%d writes under load, each answered", written)
	if changes != 4*2 {
		t.Errorf("the answer to four writers changed %d times, want once for each writer and change", changes)
	}
}

func configure(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
