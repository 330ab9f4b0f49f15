package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is how long a page may take to show what happens in a cluster in which other tests run.
	patience = 2 * time.Minute
	// commandTimeout ends a command of the browser. It never answers one whose page goes away meanwhile.
	commandTimeout = 20 * time.Second
	// pollInterval is the time between two looks at a page.
	pollInterval = 100 * time.Millisecond
	// reload follows the link of a page that says that devices have come or gone, as those of other
	// tests do. It does nothing on other pages.
	reload = `(() => { const newer = document.getElementById("newer"); if (newer && !newer.hidden) location.reload(); })()`
)

// A Window is a browser that shows a console. Each of its methods fails the test after about 2 min.
type Window struct {
	t    testing.TB
	page context.Context
	// base is the address of the console, without a path.
	base string
}

// Open shows the address of a console in a browser of its own until the test ends. It skips the test
// where Chromium is not installed.
func Open(t testing.TB, address string) Window {
	t.Helper()
	allocator, kill := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(Chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU)...)
	t.Cleanup(kill)
	page, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	t.Cleanup(func() {
		limited, stop := context.WithTimeout(page, commandTimeout)
		defer stop()
		if err := chromedp.Cancel(limited); err != nil {
			t.Logf("the browser did not end: %v", err)
		}
	})
	if err := chromedp.Run(page); err != nil { // not limited: the browser lives as long as this context
		t.Fatal(err)
	}
	w := Window{t: t, page: page}
	w.base, _, _ = strings.Cut(address, "/?")
	w.Navigate(strings.TrimPrefix(address, w.base))
	return w
}

// Navigate shows a path of the console.
func (w Window) Navigate(path string) {
	w.t.Helper()
	w.retry("navigate to "+path, func() error { return w.run(chromedp.Navigate(w.base + path)) })
}

// Set sets the value of the first element that matches.
func (w Window) Set(selector, value string) {
	w.t.Helper()
	w.Await("there is "+selector, fmt.Sprintf(`(() => { const e = document.querySelector(%q); if (e) { e.value = %q; } return e !== null; })()`, selector, value))
}

// Click clicks on the first element that matches, once it is visible.
func (w Window) Click(selector string) {
	w.t.Helper()
	// In one script: a page that renews itself may replace the element between two.
	w.Await(selector+" can be clicked", fmt.Sprintf(
		`(() => { const e = document.querySelector(%q); if (!e || e.disabled || !e.checkVisibility()) return false; e.click(); return true; })()`, selector))
}

// Await waits until an expression is true on the page. It reloads the page only if that asks for it.
func (w Window) Await(what, expression string) {
	w.t.Helper()
	w.retry(what, func() error {
		var done bool
		err := w.run(chromedp.Evaluate("Boolean("+expression+")", &done))
		if done {
			return nil
		}
		return errors.Join(fmt.Errorf("%s is false", expression), err, w.run(chromedp.Evaluate(reload, nil)))
	})
}

// Text returns the value of an expression of the page.
func (w Window) Text(expression string) (text string) {
	w.t.Helper()
	w.retry(expression, func() error { return w.run(chromedp.Evaluate(expression, &text)) })
	return text
}

func (w Window) run(action chromedp.Action) error {
	limited, stop := context.WithTimeout(w.page, commandTimeout)
	defer stop()
	return chromedp.Run(limited, action)
}

// retry calls a function until it returns no error: a page that is being replaced has no context.
func (w Window) retry(what string, try func() error) {
	w.t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(w.page, pollInterval, patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	}); err != nil {
		text := ""
		_ = w.run(chromedp.Evaluate("document.body.innerText", &text)) // the page is only a hint
		w.t.Fatalf("%s: %v\n%s", what, errors.Join(err, last), text)
	}
}
