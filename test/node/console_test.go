package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestConsole: a browser follows a device that the kubelet prepares for a pod, a taint that the driver publishes, and
// the device that the kubelet gives back.
func TestConsole(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install --no-install-recommends chromium")
	}
	w := newWorld(t)
	w.createClass()
	page := w.openConsole(t, chromium)
	const device = "dev-0"
	w.shows(page, device, "free")
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}, Spec: claimSpec(exactly("gpu", 1))})
	w.run(pod("default", "holder", named("held"), container("main", corev1.ResourceClaim{Name: "c"})))
	if given := w.driver.gave("default", "held"); len(given) != 1 || given[0] != device {
		t.Fatalf("the driver prepared %v, want %s", given, device)
	}
	claim, err := w.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.shows(page, device, "held")
	w.publishTainted(t, device)
	w.shows(page, device, "held, noschedule")
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "holder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the driver takes the device back", func(context.Context) (bool, string) {
		_, err := os.Stat(w.driver.spec(claim.UID))
		return os.IsNotExist(err), fmt.Sprint(err)
	})
	if err := w.client.ResourceV1().ResourceClaims("default").Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.shows(page, device, "free, noschedule")
}

// publishTainted publishes the devices as before, one with a taint.
func (w *world) publishTainted(t *testing.T, tainted string) {
	t.Helper()
	var devices []resourceapi.Device
	for i := range deviceCount {
		device := resourceapi.Device{Name: fmt.Sprintf("dev-%d", i)}
		device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"name": {StringValue: &device.Name}}
		if device.Name == tainted {
			device.Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		devices = append(devices, device)
	}
	if err := w.driver.publish(t.Context(), devices); err != nil {
		t.Fatal(err)
	}
}

// openConsole runs the console, and opens its first page in a browser.
func (w *world) openConsole(t *testing.T, chromium string) context.Context {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	var problems strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"console", "--kubeconfig=" + inside.cluster.Kubeconfig()}, cmdutil.Streams{In: strings.NewReader(""), Out: in, Err: &problems})
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != cmdutil.ExitClean {
			t.Errorf("the console ends with %d: %s", code, problems.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, kill := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(kill)
	page, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Run(page, chromedp.Navigate(strings.TrimSpace(strings.TrimPrefix(line, "open ")))); err != nil {
		t.Fatal(err)
	}
	return page
}

// shows waits until the row of a device has a state. It reloads a page only if that says that devices have come or gone.
func (w *world) shows(page context.Context, device, state string) {
	w.Helper()
	row := fmt.Sprintf(`[...document.querySelectorAll("tr[data-index]")].find(r => r.textContent.includes(%q))`, device)
	script := `(() => { const newer = document.getElementById("newer"); if (newer && !newer.hidden) location.reload();
const row = ` + row + `; return row ? row.querySelector(".state").textContent : ""; })()`
	w.eventually(fmt.Sprintf("the page shows that %s is %s", device, state), func(ctx context.Context) (bool, string) {
		var shown string
		limited, stop := context.WithTimeout(page, 10*time.Second)
		defer stop()
		err := chromedp.Run(limited, chromedp.Evaluate(script, &shown))
		return err == nil && shown == state, fmt.Sprintf("%q, %v", shown, err)
	})
}
