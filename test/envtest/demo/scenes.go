package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// admitted applies what is right and shows what dra-steward adds to it.
func (s *show) admitted(ctx context.Context, stock map[string]stored) error {
	s.title("Admitted")
	files, err := s.files("admitted")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := s.succeed(ctx, "", "apply", "-f", file); err != nil {
			return err
		}
	}
	s.title("Defaulted")
	s.say("What is stored now, against what this API server stores without dra-steward. (It\nfills in count, operator and timeAdded itself; elsewhere dra-steward does.)")
	for _, file := range files {
		now, err := s.get(ctx, file)
		if err != nil {
			return err
		}
		if diff := stock[file].diff(now); diff != "" {
			fmt.Fprintf(s.out, "%s\n%s\n", file, indent(diff))
		} else {
			fmt.Fprintf(s.out, "%s: nothing\n", file)
		}
	}
	return nil
}

// scheduled waits for the pod of the examples.
func (s *show) scheduled(ctx context.Context) error {
	s.title("Scheduled")
	s.say("The real scheduler allocates a device and binds the pod. gpu-0 is tainted.")
	if err := s.succeed(ctx, "", "wait", "pod/training", "--for=condition=Ready", "--timeout=60s"); err != nil {
		return err
	}
	if err := s.succeed(ctx, "", "get", "pod", "training", "-o", "wide"); err != nil {
		return err
	}
	const device = `{range .status.allocation.devices.results[*]}{.driver}/{.pool}/{.device}{"\n"}{end}`
	output, err := s.kubectl(ctx, "get", "resourceclaim", "training", "-o", "jsonpath="+device)
	if err == nil && !strings.Contains(output, "gpu.example.com/node-1/gpu-1") {
		err = fmt.Errorf("the claim should have got gpu-1, the device without a taint")
	}
	return err
}

// reapplied shows that a taint keeps its time.
func (s *show) reapplied(ctx context.Context) error {
	s.title("Kept")
	s.say("A driver applies its slice again and again. By itself the API server would give the\ntaint a new time with every apply, and no eviction would ever be due.")
	slice := filepath.Join(s.examples, "admitted", "2-resourceslice.yaml")
	first := ""
	for range 3 {
		const added = "jsonpath={.spec.devices[0].taints[0].timeAdded}{\"\\n\"}"
		output, err := s.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", slice, "-o", added)
		if err != nil {
			return err
		}
		if first != "" && output != first {
			return fmt.Errorf("timeAdded changed from %s to %s", first, output)
		}
		first = output
		if err := nextSecond(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nextSecond waits for the clock, since the times of taints are whole seconds.
func nextSecond(ctx context.Context) error {
	start := time.Now().Unix()
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return time.Now().Unix() > start, nil
	})
}

// warnings shows what passes with a warning.
func (s *show) warnings(ctx context.Context) error {
	s.title("Warned about")
	s.say("The taint of gpu-0 becomes one that evicts, with a time from long ago: pods that\ntolerate it for ten minutes would be evicted at once.")
	const slice = "node-1-gpu.example.com"
	if err := s.succeed(ctx, "", "patch", "resourceslice", slice, "--type=json", "-p", replaceTaint("NoSchedule")); err != nil {
		return err
	}
	if err := s.succeed(ctx, "the effect changed", "patch", "resourceslice", slice, "--type=json", "-p", replaceTaint("NoExecute")); err != nil {
		return err
	}
	s.say("The site lowers its limit to one device per slice. The stored slice has two: its\ndriver may go on updating it.")
	if err := s.install(ctx, map[string]any{"devicesPerSlice": 1}); err != nil {
		return err
	}
	return s.succeed(ctx, "at most 1", "annotate", "resourceslice", slice, "example.com/reported-by=driver")
}

func replaceTaint(effect string) string {
	return `[{"op":"replace","path":"/spec/devices/0/taints/0","value":{"key":"gpu.example.com/unhealthy","value":"xid-79","effect":"` +
		effect + `","timeAdded":"2026-01-01T00:00:00Z"}}]`
}

// denials applies what is wrong.
func (s *show) denials(ctx context.Context) error {
	s.title("Denied")
	if err := s.install(ctx, map[string]any{"devicesPerSlice": 10}); err != nil {
		return err
	}
	files, err := s.files("denied")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := s.refuse(ctx, "dra-steward rule", "create", "-f", file); err != nil {
			return err
		}
	}
	return nil
}

// foreignAllocator allocates a claim as another scheduler might.
func (s *show) foreignAllocator(ctx context.Context) error {
	s.say("Another allocator allocates a claim without its finalizer. The device\nwould never be released.")
	claim := map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": map[string]any{"name": "foreign", "namespace": "default"},
		"spec": map[string]any{"devices": map[string]any{"requests": []any{
			map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": "gpu.example.com"}},
		}}},
	}
	if err := s.create(ctx, claim); err != nil {
		return err
	}
	if err := s.succeed(ctx, "", "patch", "resourceclaim", "foreign", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`); err != nil {
		return err
	}
	allocation, err := json.Marshal(map[string]any{"status": map[string]any{"allocation": map[string]any{"devices": map[string]any{
		"results": []any{map[string]any{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-1"}},
	}}}})
	if err != nil {
		return err
	}
	return s.refuse(ctx, "allocation-finalizer", "patch", "resourceclaim", "foreign", "--subresource=status", "--type=merge", "-p", string(allocation))
}
