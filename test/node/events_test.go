package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

// checkRestart: the same client goes on, and knows that what is missing is unknown.
func checkRestart(w *world, client *podresources.Client, truth map[string]string) {
	before, err := client.List(w.Context(), time.Now())
	if err != nil {
		w.Fatal(err)
	}
	w.kubelet.stop(w)
	if _, err := client.List(w.Context(), time.Now()); err == nil {
		w.Error("a kubelet that is gone must be an error")
	}
	w.kubelet.start(w)
	fewest := len(before.Pods)
	w.eventually("the kubelet lists all pods again", func(ctx context.Context) (bool, string) {
		listing, err := client.List(ctx, time.Now())
		if err != nil {
			return false, err.Error()
		}
		if !listing.Started.After(before.Started) {
			return false, "the socket is the old one"
		}
		if listing.Complete {
			w.Errorf("settled %s after its start", time.Since(listing.Started))
		}
		fewest = min(fewest, len(listing.Pods))
		return len(listing.Pods) == len(before.Pods), fmt.Sprint(len(listing.Pods), " pods")
	})
	w.Logf("fewest pods that it listed after the restart: %d of %d", fewest, len(before.Pods))
	if diff := cmp.Diff(truth, attributed(podresources.Attribute(w.read(client)))); diff != "" {
		w.Errorf("after the restart:\n%s", diff)
	}
	later, err := client.List(w.Context(), time.Now().Add(time.Minute))
	if err != nil || !later.Complete {
		w.Errorf("a minute later it must be settled: %v", err)
	}
}

// checkRateLimit: beside a noisy client our calls come through, by waiting.
func checkRateLimit(w *world) {
	ctx, stop := context.WithCancel(w.Context())
	noisy := podresources.New(podresources.Options{})
	defer noisy.Close()
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for ctx.Err() == nil {
				_, _ = noisy.Allocatable(ctx)
			}
			return nil
		})
	}
	client := podresources.New(podresources.Options{})
	defer client.Close()
	for range 30 {
		if _, err := client.List(ctx, time.Now()); err != nil {
			w.Error(err)
		}
	}
	stop()
	_ = group.Wait()
	sent, rejected := client.Calls()
	loud, refused := noisy.Calls()
	w.Logf("ours: %d calls, %d rejected, for 30 lists; the noisy client: %d calls, %d rejected", sent, rejected, loud, refused)
}

// nodeCheck runs the program as on a node.
func (w *world) nodeCheck(flags ...string) (int, string) {
	var out, errs strings.Builder
	code := cli.Run(w.Context(), append([]string{"node", "check", "--cdi-dir", w.cdiDir}, flags...), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return code, out.String() + errs.String()
}

// checkBroken removes a specification under a running container. It is found at once,
// and the next start of the container fails.
func checkBroken(w *world, in podresources.Input, watch *watch) {
	if code, out := w.nodeCheck(); code != cmdutil.ExitClean {
		w.Errorf("before: %d %s", code, out)
	}
	for _, claim := range in.Checkpoint {
		if claim.Name == "two-requests" {
			if err := os.Remove(w.driver.spec(claim.UID)); err != nil {
				w.Fatal(err)
			}
		}
	}
	watch.checkBroken(time.Now())
	code, out := w.nodeCheck()
	if code != cmdutil.ExitFindings || strings.Count(out, "no-device") != 3 || !strings.Contains(out, "claim default/two-requests") {
		w.Errorf("after: %d %s", code, out)
	}
	if failure := w.runtime.failure("requests", "only-a"); failure != "" {
		w.Errorf("the container still runs: %s", failure)
	}
	w.end("requests", "only-a")
	w.eventually("the next start fails", func(context.Context) (bool, string) {
		failure := w.runtime.failure("requests", "only-a")
		return strings.Contains(failure, "unresolvable CDI devices"), failure
	})
}

// end ends a container as if its process had failed.
func (w *world) end(pod, container string) { w.exit(pod, container, 1, "") }

// exit ends a container as if its process had, with a code, after it had printed a line.
func (w *world) exit(pod, container string, code int32, line string) {
	w.Helper()
	w.runtime.RuntimeService.Lock()
	defer w.runtime.RuntimeService.Unlock()
	for _, c := range w.runtime.RuntimeService.Containers {
		if c.Labels["io.kubernetes.pod.name"] == pod && c.Metadata.Name == container {
			if line != "" {
				w.must(os.WriteFile(c.LogPath, fmt.Appendf(nil, "%s stdout F %s\n", time.Now().Format(time.RFC3339Nano), line), 0o600))
			}
			c.State, c.FinishedAt, c.ExitCode = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code
		}
	}
}

// record writes what the kubelet answered into the testdata of package podresources.
func record(t *testing.T, in podresources.Input) {
	if !*update {
		return
	}
	for i := range in.Pods {
		in.Pods[i].ManagedFields = nil
	}
	for i := range in.Claims {
		in.Claims[i].ManagedFields = nil
	}
	dra, err := os.ReadFile(filepath.Join(kubeletRoot, checkpoint.DRAFile))
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.MarshalIndent(map[string]any{
		"listing": in.Listing, "pods": in.Pods, "claims": in.Claims, "checkpoint": string(dra),
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("../../pkg/podresources/testdata/kubelet-1.37.0.json", append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
