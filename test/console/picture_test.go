package console_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tabContext is the context that an action gets.
type tabContext = context.Context

// awaitPromise waits for the promise that an expression is.
func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// disableScript turns JavaScript off.
var disableScript chromedp.Action = emulation.SetScriptExecutionDisabled(true)

// serveOther is a page of another origin of the same machine.
func serveOther(t *testing.T) string {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<p>other") }))
	t.Cleanup(other.Close)
	return other.URL
}

// block is the width of the squares by which pictures are compared: fonts differ by pixels.
const block = 16

// difference is the part of the squares that differ in two pictures.
func difference(t *testing.T, a, b []byte) float64 {
	t.Helper()
	first, second := decode(t, a), decode(t, b)
	if first.Bounds() != second.Bounds() {
		t.Errorf("the picture is %v, was %v", second.Bounds().Size(), first.Bounds().Size())
		return 1
	}
	differing, all := 0, 0
	for y := 0; y < first.Bounds().Dy(); y += block {
		for x := 0; x < first.Bounds().Dx(); x += block {
			all++
			if far(mean(first, x, y), mean(second, x, y)) {
				differing++
			}
		}
	}
	return float64(differing) / float64(all)
}

func decode(t *testing.T, data []byte) image.Image {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// mean is the mean colour of a square.
func mean(picture image.Image, x, y int) (sum [3]int) {
	n := 0
	square := image.Rect(x, y, x+block, y+block).Intersect(picture.Bounds())
	for j := square.Min.Y; j < square.Max.Y; j++ {
		for i := square.Min.X; i < square.Max.X; i++ {
			c := color.RGBAModel.Convert(picture.At(i, j)).(color.RGBA)
			sum[0], sum[1], sum[2], n = sum[0]+int(c.R), sum[1]+int(c.G), sum[2]+int(c.B), n+1
		}
	}
	for i := range sum {
		sum[i] /= max(n, 1)
	}
	return sum
}

// far reports whether two mean colours are not those of the same content.
func far(a, b [3]int) bool {
	for i := range a {
		if a[i]-b[i] > 28 || b[i]-a[i] > 28 {
			return true
		}
	}
	return false
}

// smaller is a picture with at most 256 colours: those that it has most, as far as that suffices.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	from := decode(t, data)
	counts := map[color.RGBA]int{}
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	to := image.NewPaletted(from.Bounds(), mostFrequent(counts))
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mostFrequent are at most 256 colours, filled up with those of the web.
func mostFrequent(counts map[color.RGBA]int) (colours color.Palette) {
	for len(colours) < 200 && len(counts) > 0 {
		best, most := color.RGBA{}, 0
		for c, n := range counts {
			if n > most || n == most && less(c, best) {
				best, most = c, n
			}
		}
		delete(counts, best)
		colours = append(colours, best)
	}
	return append(colours, palette.WebSafe[:min(256-len(colours), len(palette.WebSafe))]...)
}

func less(a, b color.RGBA) bool {
	return int(a.R)<<16+int(a.G)<<8+int(a.B) < int(b.R)<<16+int(b.G)<<8+int(b.B)
}
