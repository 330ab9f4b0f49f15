package drain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/test/chart/console"
)

// patience is how long a page may take to show what happens in a cluster in which other tests run.
const patience = 2 * time.Minute

// A window is a browser that shows a console.
type window struct {
	context.Context
	t    *testing.T
	base string
}

// openConsole runs the console of the cluster for the user of a kubeconfig, and opens it in a browser.
func openConsole(t *testing.T, kubeconfig string, args ...string) window {
	t.Helper()
	console.Chromium(t)
	first := console.Run(t, kubeconfig, args...)
	w := window{console.Open(t, first), t, ""}
	w.base, _, _ = strings.Cut(first, "/?")
	return w
}

func (w window) run(actions ...chromedp.Action) {
	w.t.Helper()
	if err := chromedp.Run(w, actions...); err != nil {
		w.t.Fatal(err)
	}
}

// click clicks on the first element that matches. A page that renews itself may replace the element before it is
// clicked: then the new one is.
func (w window) click(selector string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := chromedp.Run(w, chromedp.Click(selector, chromedp.ByQuery))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "Could not find node") || time.Now().After(deadline) {
			w.t.Fatalf("click on %s: %v", selector, err)
		}
	}
}

// reload follows the link of a page that says that devices have come or gone, as those of other
// tests do. It does nothing on other pages.
const reload = `(() => { const newer = document.getElementById("newer"); if (newer && !newer.hidden) location.reload(); })()`

// await waits until an expression is true on the page. It reloads the page only if that asks for it.
func (w window) await(what, expression string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		// A page that reloads itself has no context for a moment: then it is asked again.
		err := chromedp.Run(w, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(2*time.Second)))
		if err == nil {
			return
		}
		_ = chromedp.Run(w, chromedp.Evaluate(reload, nil)) // the deadline ends a page that is never ready
		if time.Now().After(deadline) || w.Err() != nil {
			text := ""
			_ = chromedp.Run(w, chromedp.Evaluate("document.body.innerText", &text)) // the page is only a hint
			w.t.Fatalf("%s: %v\n%s", what, err, text)
		}
	}
}

// awaitDevice waits until the row of the device of a node shows a state.
func (w window) awaitDevice(node int, state string) {
	w.t.Helper()
	w.await(fmt.Sprintf("node-%d is %s", node, state), fmt.Sprintf(
		`[...document.querySelectorAll("tr[data-index]")].some(r => r.textContent.includes("node-%d") && r.querySelector(".state").textContent === %q)`, node, state))
}

// TestBrowser: a browser that shows the console follows a pod that gets its device, a taint, and a
// drain from its start until it is drained.
func TestBrowser(t *testing.T) {
	s := newSite(t, "browser", 1)
	w := openConsole(t, cluster.Kubeconfig())
	devices := w.base + "/?q=driver:" + s.driver
	w.run(chromedp.Navigate(devices))
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
	w.run(chromedp.Navigate(w.base + "/drain?name=" + name))
	w.await("the drain goes on", `["Waiting", "Cordoned", "Draining"].includes(document.querySelector("h1 .state").textContent)`)
	w.await("the drain has ended", `document.querySelector("h1 .state").textContent === "Drained" && document.querySelector(".progress").textContent.includes("100%")`)
	s.wait(name, "Drained=True Drained")
	w.run(chromedp.Navigate(devices))
	w.awaitDevice(from, "free, noschedule")
	w.awaitDevice(to, "held")
	do(s, drains.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.awaitDevice(from, "free")
}
