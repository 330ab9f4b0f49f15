package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// nodeHoldings is what dra-steward node holdings writes on the node.
func (w *world) nodeHoldings() string {
	w.Helper()
	var out, errs strings.Builder
	code := cli.Run(w.Context(), []string{"node", "holdings", "--node-name", nodeName, "--kubeconfig", inside.cluster.Kubeconfig(), "--kubelet-root", kubeletRoot, "-o", "wide"}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if code != cmdutil.ExitClean {
		w.Fatalf("node holdings: exit code %d: %s", code, errs.String())
	}
	return out.String()
}

// cpu gives a container a request for CPU, and a limit.
func cpu(c corev1.Container, request, limit string) corev1.Container {
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	return c
}

// TestResize: the kubelet resizes a container with devices in place. The holdings are the same before
// and after, none is shown as released meanwhile, and the driver is not asked again.
func TestResize(t *testing.T) {
	w := newWorld(t)
	w.kubelet.stop(t)
	if err := w.kubelet.useCgroups(t); err != nil {
		t.Skipf("a resize needs a cgroup of the kubelet's own, which cannot be created here: %v", err)
	}
	w.kubelet.start(t)
	t.Cleanup(func() {
		w.clear()
		w.kubelet.stop(t)
	})
	w.createClass()
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: claimSpec(exactly("a", 2), exactly("b", 1))})
	w.run(pod("default", "resized", named("shared"), cpu(container("main", corev1.ResourceClaim{Name: "c", Request: "a"}), "100m", "200m"), container("other", corev1.ResourceClaim{Name: "c", Request: "b"})))
	truth, prepared, before := w.environments(), w.driver.prepared(), w.nodeHoldings()
	if len(truth) != 2 || strings.Count(before, "dev-") < 3 {
		t.Fatalf("holdings:\n%s\nenvironments: %v", before, truth)
	}
	watch := startWatch(w)
	w.eventually("the node is looked at", func(context.Context) (bool, string) {
		return len(watch.metrics("device_holder_info{")) == 3, ""
	})
	released := watch.releases(func() { w.resize("resized", "main", "300m", "400m") })
	if released > 0 {
		t.Errorf("during the resize up to %d holdings were shown as released", released)
	}
	if diff := cmp.Diff(before, w.nodeHoldings()); diff != "" {
		t.Errorf("the holdings before and after the resize differ:\n%s", diff)
	}
	if diff := cmp.Diff(truth, w.holdings()); diff != "" {
		t.Errorf("environments and holdings differ:\n%s", diff)
	}
	if now := w.driver.prepared(); now != prepared {
		t.Errorf("the driver was asked to prepare claims %d times more", now-prepared)
	}
}

// resize changes the CPU of a container, and waits until the kubelet has done so without a restart.
func (w *world) resize(pod, container, request, limit string) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, container, request, limit)
	_, err := w.client.CoreV1().Pods("default").Patch(w.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	w.must(err)
	want := resource.MustParse(limit)
	w.eventually("the container is resized", func(ctx context.Context) (bool, string) {
		now, err := w.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, status := range now.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				w.Errorf("container %s was restarted", status.Name)
			}
			if status.Name == container && status.Resources != nil && status.Resources.Limits.Cpu().Equal(want) {
				return w.runtime.resized() > 0, "the runtime was not told"
			}
		}
		return false, fmt.Sprint(now.Status.Conditions, now.Status.ContainerStatuses)
	})
}
