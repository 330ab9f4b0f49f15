package console_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// enableScript turns JavaScript on again.
var enableScript chromedp.Action = emulation.SetScriptExecutionDisabled(false)

// A clerk accepts dry runs, and refuses what is above a threshold.
type clerk struct{ console.Writer }

func (clerk) User(context.Context) (string, error)     { return "jane@example.com", nil }
func (clerk) Faults(context.Context) ([]string, error) { return nil, nil }

func (clerk) Rule(context.Context, string) (*resourceapi.DeviceTaintRule, error) { return nil, nil }

func (clerk) ApplyRule(_ context.Context, intent taints.Intent, _ *resourceapi.DeviceTaintRule, _ bool) (string, []string, error) {
	if intent.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute && intent.Acknowledged == "" {
		return "", nil, errors.New(`admission webhook "guard.dra-steward.io" denied the request: hits 1 pod, more than the threshold of 0`)
	}
	return "created", []string{"evicts the pod of team-a"}, nil
}

func (clerk) Drain(context.Context, string) (*v1alpha1.DeviceDrain, error) { return nil, nil }

func (clerk) CreateDrain(context.Context, *v1alpha1.DeviceDrain, bool) ([]string, error) {
	return nil, nil
}

// A slowClerk answers a preview of a pause when it is released.
type slowClerk struct {
	clerk
	asked, released chan struct{}
}

func (slowClerk) Drain(_ context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	return &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (c slowClerk) PauseDrain(ctx context.Context, _ *v1alpha1.DeviceDrain, _, _ bool) ([]string, error) {
	c.asked <- struct{}{}
	select {
	case <-ctx.Done():
	case <-c.released:
	}
	return nil, ctx.Err()
}

// TestLeavingPage: the page of a drain renews itself a second after a change, but not while the answer to a button that its user
// has pressed is on its way.
func TestLeavingPage(t *testing.T) {
	b := open(t)
	in := exampleInput(t)
	f := build(t, in, nil)
	c := slowClerk{asked: make(chan struct{}, 1), released: make(chan struct{})}
	s := serveFor(t, f, now, c)
	b.run(chromedp.Navigate(s.first), chromedp.Navigate(s.base+pages()["drain"]))
	b.await(`document.getElementById("status-text").textContent === "live"`)
	s.Show(build(t, tainted(in), f))
	b.run(chromedp.Evaluate(`document.querySelector('button[data-verb="pause"]').click()`, nil))
	<-c.asked
	<-time.After(2 * time.Second)
	close(c.released)
	b.run(chromedp.WaitVisible("#confirm", chromedp.ByQuery))
}

// accessible fails if the page is wider than the window, or axe has a serious finding, at both widths,
// light and dark.
func (b tab) accessible(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.size(width, 900, scheme)
			where := fmt.Sprintf("%s, %s, %d pixels", name, scheme, width)
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
				b.t.Errorf("%s: the page is %d pixels wide", where, wide)
			}
			for _, finding := range findings(b) {
				b.t.Errorf("%s: %s", where, finding)
			}
		}
	}
}

// TestForms: pages with forms and previews are usable at both widths, light and dark, and by people
// who use a keyboard; on paper there are no forms. A form is sent by the browser itself, without
// JavaScript.
func TestForms(t *testing.T) {
	b := open(t)
	s := serveFor(t, build(t, exampleInput(t), nil), now, clerk{})
	b.size(1280, 900, "light")
	b.run(chromedp.Navigate(s.first))
	for name, address := range map[string]string{"device": pages()["device"], "drains": "/drains", "drain": pages()["drain"], "taints": "/taints"} {
		b.run(chromedp.Navigate(s.base + address))
		if n := eval[int](b, "("+visible+`)("form.change")`); n == 0 {
			t.Errorf("%s: no form", name)
		}
		b.accessible(name)
		b.run(emulation.SetEmulatedMedia().WithMedia("print"))
		if n := eval[int](b, "("+visible+`)("form")`); n > 0 {
			t.Errorf("%s: %d forms are printed", name, n)
		}
		b.run(emulation.SetEmulatedMedia().WithMedia("screen"))
	}
	b.size(1280, 900, "light")
	device := s.base + "/device?driver=gpu.example.com&pool=a03&device=gpu-0"
	b.run(disableScript, chromedp.Navigate(device), chromedp.SetValue("#d-rate", "6", chromedp.ByQuery), chromedp.SetValue("#d-windows", "Sat,Sun 22:00-06:00 Europe/Berlin", chromedp.ByQuery),
		chromedp.Click("#preview-drain", chromedp.ByQuery), chromedp.WaitVisible("#confirm", chromedp.ByQuery))
	b.size(1280, 620, "light")
	b.compare("change-light")
	b.run(chromedp.Navigate(device), chromedp.SetValue("#t-key", "example.com/broken", chromedp.ByQuery), chromedp.SetValue("#t-effect", "NoExecute", chromedp.ByQuery), chromedp.Click("#preview-taint", chromedp.ByQuery),
		chromedp.WaitVisible("#again", chromedp.ByQuery))
	b.size(1280, 760, "dark")
	b.compare("refused-dark")
	b.run(enableScript)
	b.run(chromedp.Reload())
	b.accessible("a refused taint")
	if got := b.problems.all(); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
}
