package console_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

//go:embed testdata/axe.min.js
var axe string

// pages are all kinds of pages of the example.
func pages() map[string]string {
	return map[string]string{
		"map": "/", "search": "/?q=state:tainted&group=driver", "device": "/device?driver=gpu.example.com&pool=a02&device=gpu-3", "why": "/pod?namespace=research&name=eight-0",
		"drains": "/drains", "drain": "/drain?name=a05-firmware", "taints": "/taints", "capacity": "/capacity?by=class", "findings": "/findings", "policies": "/policies", "report": "/report?make=yes",
		"missing": "/device?driver=a",
	}
}

// TestPages: a browser shows each page at both widths, light and dark, without an error, a
// violation of a policy or a serious finding of axe, and no page is wider than the window.
func TestPages(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.run(chromedp.Navigate(s.first))
	if at := eval[string](b, "location.href"); at != s.base+"/" {
		t.Errorf("after the first address the browser is at %q", at)
	}
	if cookie := eval[string](b, "document.cookie"); cookie != "" {
		t.Errorf("scripts read the cookie %q", cookie)
	}
	for name, path := range pages() {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				where := fmt.Sprintf("%s, %s, %d pixels", name, scheme, width)
				b.size(width, 900, scheme)
				b.run(chromedp.Navigate(s.base + path))
				if name == "map" || name == "search" {
					b.await(`document.body.dataset.drawn !== undefined`)
				}
				if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s: the page is %d pixels wide", where, wide)
				}
				for _, finding := range findings(b) {
					t.Errorf("%s: %s", where, finding)
				}
			}
		}
	}
	for _, problem := range b.problems.all() {
		if !strings.Contains(problem, "404") { // the page of a device that does not exist
			t.Error(problem)
		}
	}
}

// findings are those of axe that keep people from using a page.
func findings(b tab) (texts []string) {
	b.run(chromedp.Evaluate(axe+";0", nil))
	var text string
	b.run(chromedp.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, html: v.nodes.map(n => n.html + " " + (n.any[0] || n.all[0] || n.none[0] || {}).message).slice(0, 2)}))))`,
		&text, awaitPromise))
	var all []struct {
		ID, Impact, Help string
		HTML             []string
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range all {
		if v.Impact == "serious" || v.Impact == "critical" {
			texts = append(texts, fmt.Sprintf("axe: %s (%s): %s: %.300q", v.ID, v.Impact, v.Help, v.HTML))
		}
	}
	return texts
}

// tainted is the example with one more taint on a01/gpu-2.
func tainted(in fleet.Input) fleet.Input {
	target := taints.Target{Driver: "gpu.example.com", Pool: "a01", Device: "gpu-2"}
	rule := taints.Intent{Target: target, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}.Rule()
	in.View = placement.With(in.View, rule)
	return in
}

// TestLive: the map, its legend and its table follow a taint; a page says when it is not current.
func TestLive(t *testing.T) {
	b := open(t)
	in := exampleInput(t)
	f := build(t, in, nil)
	s := serve(t, f, now)
	b.run(chromedp.Navigate(s.first))
	b.drawn(1)
	b.await(`document.getElementById("status-text").textContent === "live"`)
	row := `document.querySelector('tr[data-index="2"] .state').textContent`
	if got := eval[string](b, row); got != "held" {
		t.Errorf("the third device is %q", got)
	}
	f = build(t, tainted(in), f)
	s.Show(f)
	b.drawn(2)
	if got := eval[string](b, row); got != "held, noexecute" {
		t.Errorf("after the taint, the third device is %q", got)
	}
	if got := eval[string](b, `document.querySelector('[data-count="noexecute"]').textContent`); got != "2" {
		t.Errorf("%s devices with NoExecute, want 2", got)
	}
	s.Stale("the API server is away")
	b.await(`document.getElementById("stale").textContent.includes("the API server is away")`)
	s.Stale("")
	b.await(`document.getElementById("stale").hidden`)
	s.Show(build(t, in, f))
	b.await(row + ` === "held"`)
	if got := b.problems.all(); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
}

// TestReading: what changes while a page reads its map again is on the map, and a map that could not be read is read again.
func TestReading(t *testing.T) {
	b := open(t)
	in := exampleInput(t)
	in.Claims, in.Drains = nil, nil
	in.Nodes = in.Nodes[1:]
	f := build(t, in, nil)
	s := serve(t, f, now)
	b.run(chromedp.Navigate(s.first))
	b.drawn(1)
	b.await(`document.getElementById("status-text").textContent === "live"`)
	eval[bool](b, `(() => {
		const real = window.fetch;
		window.answers = [];
		window.fetch = async (...of) => {
			const answer = await real(...of), text = await answer.text();
			const status = await new Promise((end) => { window.answers.push(end); });
			return new Response(text, { status });
		};
		return true;
	})()`)
	in.Nodes = exampleInput(t).Nodes // the labels of a node are other ones
	f = build(t, in, f)
	s.Show(f)
	b.await(`window.answers.length === 1`)
	f = build(t, tainted(in), f)
	s.Show(f)
	b.await(`document.querySelector('[data-count="noexecute"]').textContent === "2"`)
	pointed := func(want string) {
		t.Helper()
		b.run(chromedp.Focus("#viewport"), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
		if got := eval[string](b, `document.getElementById("pointed").textContent`); !strings.HasPrefix(got, want) {
			t.Errorf("the third device is %q, want %q", got, want)
		}
	}
	eval[bool](b, `window.answers.shift()(200), true`)
	b.drawn(3)
	pointed("a01 · gpu-2 · free, noexecute")

	f = build(t, in, f)
	in.Nodes = in.Nodes[1:]
	f = build(t, in, f)
	s.Show(f)
	b.await(`window.answers.length === 1`)
	eval[bool](b, `window.answers.shift()(503), true`)
	b.await(`window.answers.length === 1`)
	eval[bool](b, `window.answers.shift()(200), true`)
	b.drawn(4)
	pointed("a02 · gpu-2 · ") // a01 is in no zone
	if got := b.problems.all(); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
}

// TestKeys: the map is used with the keyboard, and Enter opens a device.
func TestKeys(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.size(1280, 900, "light")
	b.run(chromedp.Navigate(s.first))
	b.drawn(1)
	pointed := `document.getElementById("pointed").textContent`
	for _, step := range []struct{ key, want string }{
		{kb.ArrowRight, "a01 · gpu-0 · free"}, {kb.ArrowRight, "a01 · gpu-1 · free"}, {kb.ArrowLeft, "a01 · gpu-0"}, {kb.ArrowDown, "b01 · gpu-0"}, {kb.ArrowUp, "a01 · gpu-0"}, {kb.End, "b06 · gpu-7"}, {kb.Home, "a01 · gpu-0"},
	} {
		b.run(chromedp.Focus("#viewport"), chromedp.KeyEvent(step.key))
		if got := eval[string](b, pointed); !strings.HasPrefix(got, step.want) {
			t.Errorf("after %q: %q, want %q", step.key, got, step.want)
		}
	}
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`body[data-template="device"] h1`))
	if got := eval[string](b, `document.querySelector("h1").textContent`); !strings.HasPrefix(got, "gpu-0") {
		t.Errorf("Enter opens %q", got)
	}
}

// TestWithoutScript: without JavaScript the table has what the map has.
func TestWithoutScript(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.run(disableScript, chromedp.Navigate(s.first))
	var rows, shown int
	b.run(chromedp.Evaluate(`document.querySelectorAll("tr[data-index]").length`, &rows), chromedp.Evaluate(`document.getElementById("map").hidden ? 0 : 1`, &shown))
	if rows != 94 || shown != 0 {
		t.Errorf("%d rows, the map is shown: %d", rows, shown)
	}
}

// TestFiles: an export works from a folder, and its map opens the pages of devices.
func TestFiles(t *testing.T) {
	b := open(t)
	server, err := console.New(console.Options{Cluster: "prod-eu-1", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	server.Show(build(t, exampleInput(t), nil))
	folder := t.TempDir()
	written, err := server.Export(t.Context(), console.ExportOptions{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.Navigate("file://" + written.Index))
	b.await(`document.body.dataset.drawn !== undefined`)
	b.run(chromedp.Focus("#viewport"), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`body[data-template="device"] h1`))
	if got := b.problems.all(); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
}

// TestOtherOrigin: a page of another origin can neither read the console, embed it, nor make it
// answer, although the browser has the cookie.
func TestOtherOrigin(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.run(chromedp.Navigate(s.first))
	b.drawn(1)
	other := serveOther(t)
	b.run(chromedp.Navigate(other))
	for _, mode := range []string{"cors", "no-cors"} {
		got := ""
		b.run(chromedp.Evaluate(fmt.Sprintf(`fetch(%q, {mode: %q, credentials: "include"}).then(r => "answer " + r.status + " " + r.type, e => "refused")`, s.base+"/map.json", mode), &got, awaitPromise))
		if got != "refused" {
			t.Errorf("fetch with mode %s: %q", mode, got)
		}
	}
	got := ""
	b.run(chromedp.Evaluate(fmt.Sprintf(`new Promise(done => { const e = new EventSource(%q, {withCredentials: true}); e.onopen = () => done("open"); e.onerror = () => done("refused"); })`, s.base+"/events"), &got, awaitPromise))
	if got != "refused" {
		t.Errorf("event stream: %q", got)
	}
	// Another name that resolves to loopback.
	b.run(chromedp.Navigate(strings.Replace(s.base, "127.0.0.1", "rebound.localhost", 1) + "/"))
	if text := eval[string](b, "document.body.innerText"); !strings.Contains(text, "the host must be") {
		t.Errorf("another host: %.100q", text)
	}
}

// views are the pages that docs/console.md shows at both widths, light and dark, with their heights.
func views() map[string]int64 {
	return map[string]int64{"map": 620, "device": 900, "why": 820, "drains": 760, "drain": 760, "capacity": 330, "findings": 330, "policies": 760, "report": 620}
}

// TestScreenshots: the pictures of docs/console.md show the pages as they are, within a tolerance.
// DRA_STEWARD_RECORD=yes writes them.
func TestScreenshots(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.run(chromedp.Navigate(s.first))
	for view, height := range views() {
		for _, scheme := range []string{"light", "dark"} {
			b.shoot(s, view, view+"-"+scheme, 1280, height, scheme)
			b.shoot(s, view, view+"-"+scheme+"-narrow", 390, 760, scheme)
		}
	}
}

// shoot compares a page with its picture.
func (b tab) shoot(s site, view, name string, width, height int64, scheme string) {
	b.t.Helper()
	b.size(width, height, scheme)
	b.run(chromedp.Navigate(s.base + pages()[view]))
	if view == "map" {
		b.await(`document.body.dataset.drawn !== undefined`)
	}
	b.await(`document.getElementById("status-text").textContent === "live"`)
	b.compare(name)
}

// compare compares the page with a picture of the docs, or writes that.
func (b tab) compare(name string) {
	b.t.Helper()
	var picture []byte
	b.run(chromedp.ActionFunc(func(ctx tabContext) (err error) {
		picture, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	file := filepath.Join("../../docs/console", name+".png")
	if os.Getenv("DRA_STEWARD_RECORD") == "yes" {
		if err := os.WriteFile(file, smaller(b.t, picture), 0o644); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	if differing := difference(b.t, kept, picture); differing > 0.03 {
		b.t.Errorf("%s: %.1f%% of the picture differ; look at the page, and record it with DRA_STEWARD_RECORD=yes", name, 100*differing)
	}
}
