package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/policies"
)

// TestReloadsUnderLoad changes the configuration 1,000 times while requests are checked. Each
// answer is that of one configuration: never of none, of two, or of the invalid one in between.
func TestReloadsUnderLoad(t *testing.T) {
	reloads := 1000
	if testing.Short() {
		reloads = 100
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	put := func(limit int) {
		t.Helper()
		text := fmt.Sprintf("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\nlimits: {tolerationsPerRequest: %d}\n"+
			"policies: {modes: {DRA-CLAIM-003: deny}, parameters: {DRA-CLAIM-003: {classes: {gpu: %d}}}}\n", limit, limit)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(5)
	one, err := fs.Sub(policies.Files, "device-count")
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), policy.Collection{Name: "one", Files: one})
	if err != nil {
		t.Fatal(err)
	}
	site := &reloader{path: path, log: logr.Discard(), files: policyload.Files{Set: set}, complete: func(*review.Reviewer) {}, minor: func() int { return 37 }}
	if site.metrics, err = NewConfigMetrics(prometheus.NewRegistry(), site.reviewer); err != nil {
		t.Fatal(err)
	}
	if err := site.start(time.Now()); err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{}
	claim.APIVersion, claim.Kind, claim.Name, claim.Namespace = resourceapi.SchemeGroupVersion.String(), "ResourceClaim", "c", "ns"
	request := resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 9}}
	for i := range 9 {
		request.Exactly.Tolerations = append(request.Exactly.Tolerations, resourceapi.DeviceToleration{Key: fmt.Sprint("example.com/t", i), Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
	object, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var answers atomic.Int64
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				answer, err := site.reviewer().Validate(review.Request{Kind: claim.GroupVersionKind(), Object: object, Namespace: "ns", Now: time.Now()})
				if err != nil {
					t.Error(err)
					return
				}
				if by := limits(answer); len(by) != 1 {
					t.Errorf("an answer by the limits %v: %+v", by, answer.Findings)
					return
				}
				answers.Add(1)
			}
		})
	}
	for i := range reloads {
		put([]int{5, 6, 99}[i%3]) // 99 is refused
		site.reload()
	}
	stop()
	load.Wait()
	t.Logf("%d answers during %d reloads", answers.Load(), reloads)
	if answers.Load() == 0 {
		t.Error("no answer")
	}
}

// limits are those that the denials of an answer name.
func limits(answer review.Answer) map[string]bool {
	by := map[string]bool{}
	rule, count := false, false
	for _, f := range answer.Findings {
		for _, limit := range []string{"5", "6", "99"} {
			switch {
			case strings.Contains(f.Message, "at most "+limit):
				by[limit], rule = true, true
			case strings.Contains(f.Message, "more than "+limit):
				by[limit], count = true, true
			}
		}
	}
	if !rule || !count {
		by["incomplete"] = true
	}
	return by
}
