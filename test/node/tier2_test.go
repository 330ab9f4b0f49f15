package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// real makes pods that containerd can run without a network of their own.
func real(all ...*corev1.Pod) []*corev1.Pod {
	for _, p := range all {
		p.Spec.HostNetwork = true
	}
	return all
}

// TestContainerd: with a real runtime, what containers have in their environment is what we
// say, and what will not start again is reported before.
func TestContainerd(t *testing.T) {
	w := newWorldWith(t, func(cdiDir string) string { return startContainerd(t, cdiDir, true).socket })
	w.createBase()
	p := startPlugin(w)
	all := real(append(pods(), pluginPod())...)
	w.run(all...)
	environments := map[string]map[string]string{}
	for _, pod := range all {
		for _, c := range pod.Spec.Containers {
			environments[pod.Name+"/"+c.Name] = w.environmentOf(pod.Name, c.Name)
		}
	}
	client := podresources.New(podresources.Options{})
	defer client.Close()
	in := w.read(client)
	checkRawIsWrong(t, in.Listing)
	if diff := cmp.Diff(flatten(environments), attributed(podresources.Attribute(in))); diff != "" {
		t.Errorf("environments and holdings differ:\n%s", diff)
	}
	for container, ids := range pluginAllocations(w) {
		environment := environments["plugged/"+container]
		for _, id := range ids {
			device := strings.ReplaceAll(strings.TrimPrefix(id, pluginResource+"="), "-", "_")
			if environment["PLUGIN_"+device] != pluginResource || len(environment) != len(ids) {
				t.Errorf("container %s has %v, its CDI ids are %v", container, environment, ids)
			}
		}
	}
	watch := startWatch(w)
	w.eventually("the node is looked at", func(context.Context) (bool, string) { return len(watch.metrics("device_holder_info{")) > 0, "" })
	t.Run("removed", func(t *testing.T) { checkRemoved(w, in, p, watch) })
	t.Run("held twice", func(t *testing.T) { checkHeldTwice(w, watch) })
}

// TestContainerdWithoutCDI: containerd 2.2 that is told to leave CDI devices out starts the
// container without its device, and says nothing. Its CRI socket does.
func TestContainerdWithoutCDI(t *testing.T) {
	var socket string
	w := newWorldWith(t, func(cdiDir string) string {
		socket = startContainerd(t, cdiDir, false).socket
		return socket
	})
	w.createClass()
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu"}, Spec: claimSpec(exactly("r", 1))})
	w.run(real(pod("default", "gpu", named("gpu"), container("main", corev1.ResourceClaim{Name: "c"})))...)
	if environment := w.environmentOf("gpu", "main"); len(environment) > 0 {
		t.Errorf("this containerd applies CDI ids nevertheless: %v", environment)
	}
	if code, out := w.nodeCheck(); code != cmdutil.ExitClean {
		t.Errorf("unknown without the socket: %d %s", code, out)
	}
	if code, out := w.nodeCheck("--cri-socket", socket); code != cmdutil.ExitFindings || !strings.Contains(out, ": disabled: ") {
		t.Errorf("node check --cri-socket: %d %s", code, out)
	}
	watch := startWatch(w, "--cri-socket", socket)
	w.eventually("the metric says why", func(context.Context) (bool, string) {
		lines := strings.Join(watch.metrics("cdi_unresolvable{"), "\n")
		return strings.Contains(lines, `reason="disabled"`) && strings.Contains(lines, `pod="gpu"`), lines
	})
}

// checkRemoved removes the specifications of a claim and of a device plugin under running
// containers.
func checkRemoved(w *world, in podresources.Input, p *devicePlugin, watch *watch) {
	for _, claim := range in.Checkpoint {
		if claim.Name == "two-requests" {
			if err := os.Remove(w.driver.spec(claim.UID)); err != nil {
				w.Fatal(err)
			}
		}
	}
	watch.checkBroken(time.Now())
	if err := os.Remove(p.spec); err != nil {
		w.Fatal(err)
	}
	w.eventually("the device plugin's ids are shown, too", func(context.Context) (bool, string) {
		lines := strings.Join(watch.metrics("cdi_unresolvable{"), "\n")
		return strings.Count(lines, `source="device-plugins"`) == 3, lines
	})
	status := func(ctx context.Context) corev1.ContainerStatus {
		pod, err := w.client.CoreV1().Pods("default").Get(ctx, "requests", metav1.GetOptions{})
		if err != nil {
			w.Error(err)
			return corev1.ContainerStatus{}
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == "only-a" {
				return s
			}
		}
		return corev1.ContainerStatus{}
	}
	before := status(w.Context())
	if before.RestartCount != 0 || before.State.Running == nil {
		w.Errorf("the container still runs when it is reported: %+v", before)
	}
	w.kill(before.ContainerID)
	w.eventually("its next start fails", func(ctx context.Context) (bool, string) {
		now := status(ctx)
		return now.State.Waiting != nil && strings.Contains(now.State.Waiting.Message, "unresolvable CDI devices"), fmt.Sprint(now.State)
	})
}

// checkHeldTwice deletes a pod by force that takes its time to end, and gives its device
// to another.
func checkHeldTwice(w *world, watch *watch) {
	const device = "dev-11"
	holder := func(name string, arguments ...string) *corev1.Pod {
		request := exactly("r", 1)
		request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].name == %q", driverName, device)}}}
		w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: claimSpec(request)})
		p := pod("default", name, named(name), container("main", corev1.ResourceClaim{Name: "c"}))
		p.Spec.Containers[0].Args = arguments
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		return real(p)[0]
	}
	w.run(holder("stubborn", "-stubborn"))
	w.environmentOf("stubborn", "main")
	if err := w.client.CoreV1().Pods("default").Delete(w.Context(), "stubborn", byForce); err != nil {
		w.Fatal(err)
	}
	next := holder("next")
	if _, err := w.client.CoreV1().Pods("default").Create(w.Context(), next, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	begin := time.Now()
	w.eventually("the device is reported as held twice", func(context.Context) (bool, string) {
		for _, line := range watch.metrics("findings{") {
			if strings.Contains(line, `kind="held-twice"`) && !strings.HasSuffix(line, " 0") {
				return true, ""
			}
		}
		return false, strings.Join(watch.metrics("findings{"), "\n")
	})
	w.Logf("held twice is shown %s after the deletion by force", time.Since(begin).Round(time.Millisecond))
}
