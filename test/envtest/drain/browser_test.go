package drain_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/test/chart/console"
)

// A window is a browser that shows a console.
type window struct{ console.Window }

// openConsole runs the console of the cluster for the user of a kubeconfig, and opens it in a browser.
func openConsole(t *testing.T, kubeconfig string, args ...string) window {
	t.Helper()
	console.Chromium(t)
	return window{console.Open(t, console.Run(t, kubeconfig, args...))}
}

// awaitDevice waits until the row of the device of a node shows a state.
func (w window) awaitDevice(node int, state string) {
	w.Await(fmt.Sprintf("node-%d is %s", node, state), fmt.Sprintf(
		`[...document.querySelectorAll("tr[data-index]")].some(r => r.textContent.includes("node-%d") && r.querySelector(".state").textContent === %q)`, node, state))
}

// TestBrowser: a browser that shows the console follows a pod that gets its device, a taint, and a
// drain from its start until it is drained.
func TestBrowser(t *testing.T) {
	s := newSite(t, "browser", 1)
	w := openConsole(t, cluster.Kubeconfig())
	devices := "/?q=driver:" + s.driver
	w.Navigate(devices)
	w.awaitDevice(0, "free")
	w.awaitDevice(1, "free")
	s.replicas("web", 1, "")
	from, to := 0, 1
	if s.on("web")[0] == "node-1" {
		from, to = 1, 0
	}
	w.awaitDevice(from, "held")
	rule := &unstructured.Unstructured{Object: map[string]any{"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule", "metadata": map[string]any{"name": s.name},
		"spec": map[string]any{"deviceSelector": map[string]any{"driver": s.driver, "pool": fmt.Sprint("node-", to)}, "taint": map[string]any{"key": "example.com/browser", "effect": "NoSchedule"}}}}
	do(s, s.create(rules.Create(t.Context(), rule, metav1.CreateOptions{})))
	w.awaitDevice(to, "free, noschedule")
	do(s, rules.Delete(t.Context(), s.name, metav1.DeleteOptions{}))
	w.awaitDevice(to, "free")
	name := s.drain("", s.all(from))
	w.awaitDevice(from, "held, draining")
	w.Navigate("/drain?name=" + name)
	w.Await("the drain goes on", `["Waiting", "Cordoned", "Draining"].includes(document.querySelector("h1 .state").textContent)`)
	w.Await("the drain has ended", `document.querySelector("h1 .state").textContent === "Drained" && document.querySelector(".progress").textContent.includes("100%")`)
	s.wait(name, "Drained=True Drained")
	w.Navigate(devices)
	w.awaitDevice(from, "free, noschedule")
	w.awaitDevice(to, "held")
	do(s, drains.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.awaitDevice(from, "free")
}
