package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestHealth: a driver reports one of two devices of a claim as unhealthy, the kubelet writes that
// into the status of the pod, and the report says which device it is, until a taint keeps new
// claims from it.
func TestHealth(t *testing.T) {
	w := newWorld(t)
	if w.minor < 36 {
		t.Skipf("kubelet 1.%d: its gate ResourceHealthStatus is off by default, so that the status of pods has no health", w.minor)
	}
	w.createClass()
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}, Spec: claimSpec(exactly("r", 2))})
	w.run(pod("default", "trainer", named("shared"), container("main", corev1.ResourceClaim{Name: "c", Request: "r"})))
	claim, err := w.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil || claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 2 {
		t.Fatalf("%v, %+v", err, claim.Status)
	}
	first, second := claim.Status.Allocation.Devices.Results[0], claim.Status.Allocation.Devices.Results[1]
	if said := w.report(); strings.Contains(said, "unhealthy") {
		t.Errorf("before the driver says anything:\n%s", said)
	}
	w.driver.says(first, kubeletplugin.HealthStatusHealthy, second, kubeletplugin.HealthStatusUnhealthy)
	id := usage.DeviceID{Driver: second.Driver, Pool: second.Pool, Device: second.Device}.String()
	note := fmt.Sprintf("note: device %s is unhealthy, says the status of pod default/trainer", id)
	w.eventually("the report names the device", func(context.Context) (bool, string) {
		said := w.report()
		return strings.Contains(said, note) && strings.Count(said, "unhealthy, says") == 1, said
	})
	var out bytes.Buffer
	if code := w.command(&out, "taint", id, "example.com/unhealthy:NoSchedule", "--reason", "reported by a pod"); code != cmdutil.ExitClean {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	w.eventually("the report is silent", func(context.Context) (bool, string) {
		said := w.report()
		return !strings.Contains(said, "unhealthy, says"), said
	})
	if code := w.command(&out, "untaint", id, "example.com/unhealthy"); code != cmdutil.ExitClean {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	w.driver.says(first, kubeletplugin.HealthStatusHealthy, second, kubeletplugin.HealthStatusHealthy)
	w.eventually("both are healthy", func(context.Context) (bool, string) {
		said := w.report()
		return strings.Count(said, "Healthy\n") == 2 && !strings.Contains(said, "unhealthy"), said
	})
}

// says reports the health of two devices.
func (d *driver) says(a resourceapi.DeviceRequestAllocationResult, isA kubeletplugin.HealthStatus, b resourceapi.DeviceRequestAllocationResult, isB kubeletplugin.HealthStatus) {
	of := func(r resourceapi.DeviceRequestAllocationResult, health kubeletplugin.HealthStatus) kubeletplugin.DeviceHealth {
		return kubeletplugin.DeviceHealth{PoolName: r.Pool, DeviceName: r.Device, Health: health, LastUpdated: time.Now(), HealthCheckTimeout: time.Hour}
	}
	d.reports <- kubeletplugin.DeviceHealthReport{Devices: []kubeletplugin.DeviceHealth{of(a, isA), of(b, isB)}}
}

// report is what dra-steward report writes with every device.
func (w *world) report() string {
	w.Helper()
	config := filepath.Join(tempDir(w), "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	var out bytes.Buffer
	if code := w.command(&out, "report", "--config", config, "-o", "wide"); code == cmdutil.ExitFailed {
		w.Fatalf("report: %s", out.String())
	}
	return out.String()
}

// command runs dra-steward as the administrator.
func (w *world) command(out *bytes.Buffer, args ...string) int {
	return cli.Run(w.Context(), append(args, "--kubeconfig", inside.cluster.Kubeconfig()), cmdutil.Streams{In: strings.NewReader(""), Out: out, Err: out})
}
