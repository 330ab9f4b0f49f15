package console_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// visible counts the elements of a selector that take up space.
const visible = `(selector) => [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible").length`

// TestPrint: on paper, all rows of all tables are there, and what is to be pressed is not; the text is
// dark on white also if the screen is dark.
func TestPrint(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.size(1280, 900, "dark")
	b.run(chromedp.Navigate(s.first))
	for name, address := range pages() {
		if name == "missing" {
			continue
		}
		b.run(chromedp.Navigate(s.base + address))
		b.await(`document.getElementById("status-text").textContent.startsWith("live")`)
		rows := eval[int](b, `document.querySelectorAll("main tr").length`)
		b.run(emulation.SetEmulatedMedia().WithMedia("print").WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
		for _, selector := range []string{"nav", "form", ".search", ".copy", ".skip", ".status"} {
			if n := eval[int](b, "("+visible+`)("`+selector+`")`); n > 0 {
				t.Errorf("%s: %d %s are printed", name, n, selector)
			}
		}
		if n := eval[int](b, "("+visible+`)("main tr")`); n != rows {
			t.Errorf("%s: %d rows are printed, want %d", name, n, rows)
		}
		if n := eval[int](b, `[...document.querySelectorAll(".scroll, .viewport, pre")].filter(e => e.scrollHeight > e.clientHeight + 2 && getComputedStyle(e).overflowY !== "visible").length`); n > 0 {
			t.Errorf("%s: %d areas are cut", name, n)
		}
		if n := eval[int](b, `parseInt(getComputedStyle(document.body).color.match(/\d+/)[0])`); n > 100 {
			t.Errorf("%s: the text is light on paper", name)
		}
		var file []byte
		b.run(chromedp.ActionFunc(func(ctx tabContext) (err error) {
			file, _, err = page.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
			return err
		}))
		sheets := bytes.Count(file, []byte("/Type /Page\n")) + bytes.Count(file, []byte("/Type /Page ")) + bytes.Count(file, []byte("/Type /Page/"))
		if !bytes.HasPrefix(file, []byte("%PDF-")) || rows > 60 && sheets < 2 || sheets > 20 {
			t.Errorf("%s: %d sheets, %d bytes", name, sheets, len(file))
		}
		t.Logf("%s: %d rows on %d sheets", name, rows, sheets)
		b.run(emulation.SetEmulatedMedia().WithMedia("screen"))
	}
	if got := b.problems.all(); len(got) > 0 {
		t.Errorf("problems: %q", got)
	}
}

// TestPrintDark: the map is drawn light on paper, and whole, also if the screen is dark; after that
// the screen is as before.
func TestPrintDark(t *testing.T) {
	b := open(t)
	s := serve(t, build(t, exampleInput(t), nil), now)
	b.size(390, 150, "dark") // a window that shows a part of the map
	b.run(chromedp.Navigate(s.first))
	b.drawn(1)
	b.run(chromedp.Evaluate(`(() => {
		const seen = (selector) => { const c = document.querySelector(selector); return [...c.getContext("2d").getImageData(1, 1, 1, 1).data].slice(0, 3).join() + " " + c.height; };
		window.look = () => seen("#canvas");
		addEventListener("beforeprint", () => { window.printed = look(); });
	})()`, nil))
	look := func(expression string) (shade, height int) {
		t.Helper()
		text := eval[string](b, expression)
		var green, blue int
		if _, err := fmt.Sscanf(text, "%d,%d,%d %d", &shade, &green, &blue, &height); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return shade, height
	}
	before, shown := look("look()")
	b.run(chromedp.ActionFunc(func(ctx tabContext) error {
		_, _, err := page.PrintToPDF().Do(ctx)
		return err
	}))
	paper, whole := look("window.printed")
	if before > 60 || paper < 200 {
		t.Errorf("the map is %d on the dark screen and %d on paper, of 255", before, paper)
	}
	if rows := eval[int](b, `document.getElementById("spacer").offsetHeight`); whole < rows || whole <= shown {
		t.Errorf("%d pixels of the map are printed of %d, and %d are on the screen", whole, rows, shown)
	}
	if after, again := look("look()"); after != before || again != shown {
		t.Errorf("after printing the map is %d and %d high, before %d and %d", after, again, before, shown)
	}
	for _, problem := range b.problems.all() {
		if !strings.Contains(problem, "getImageData") { // this test reads pixels
			t.Error(problem)
		}
	}
}
