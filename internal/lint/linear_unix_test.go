//go:build unix

package lint

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// shapes are inputs with n mistakes.
func shapes() map[string]func(n int) string {
	const claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, namespace: b}\n"
	const slice = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\nspec:\n  driver: x.example.com\n  nodeName: n\n  pool: {name: n, generation: 1, resourceSliceCount: 1}\n  devices:\n"
	lines := func(head, format string) func(int) string {
		return func(n int) string {
			var text strings.Builder
			text.WriteString(head)
			for i := range n {
				fmt.Fprintf(&text, format, i)
			}
			return text.String()
		}
	}
	return map[string]func(int) string{
		"items of a list": lines(claim+"spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        deviceClassName: x\n        tolerations:\n",
			"        - {key: 'bad key %d', operator: Bad}\n"),
		"keys of a map":         lines(slice+"  - name: gpu-0\n    attributes:\n", "      bad name %d: {string: x}\n"),
		"unknown fields":        lines(claim+"spec:\n", "  unknown%d: 1\n"),
		"wrong types":           lines(claim+"spec:\n  devices:\n    requests:\n", "    - %d\n"),
		"a key again and again": lines(claim+"spec:\n", "  devices: {} # %d\n"),
		"objects":               lines("", "---\n"+claim+"spec: {devices: {requests: [{name: 'bad name %d'}]}}\n"),
		"items of a List":       lines("apiVersion: v1\nkind: List\nitems:\n", "- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: 'bad name %d'}}\n"),
		"text of a template":    lines(claim+"spec:\n  devices:\n    requests:\n", "    - name: '{{ .Values.name%d }}'\n"),
		"devices":               lines(slice, "  - name: Bad_%d\n"),
		"expressions":           lines(claim+"spec:\n  devices:\n    requests:\n    - name: gpu\n      exactly:\n        deviceClassName: x\n        selectors:\n", "        - cel: {expression: 'device.driver + %d'}\n"),
	}
}

// TestLinear: eight times the mistakes cost at most 2.5 cubed of the time, and what is not listed is counted. The CPU's
// time is measured, which other programs do not change.
func TestLinear(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			n := 200
			if name == "expressions" {
				n = 100
			}
			least := func(n int) time.Duration {
				text, least := shape(n), time.Duration(1<<62)
				for range 2 {
					least = min(least, cost(t, text))
				}
				return least
			}
			small, large := least(n), least(8*n)
			if ratio := float64(large) / float64(max(small, 5*time.Millisecond)); ratio > 2.5*2.5*2.5 {
				t.Errorf("%d mistakes take %s, %d take %s: %.1f times", n, small, 8*n, large, ratio)
			}
		})
	}
}

// cost is the time of the CPU for a text.
func cost(t *testing.T, text string) time.Duration {
	t.Helper()
	begin, found := used(t), 0
	l := linter(t)
	l.Reader = manifest.Reader{Stdin: strings.NewReader(text)}
	printer, err := NewPrinter("text", io.Discard, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for result := range l.Run(manifest.Stdin) {
		found += len(result.Reports)
		if err := printer.Print(result); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("nothing is found")
	}
	return used(t) - begin
}

func used(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestMore: the last line of an object counts what is not listed.
func TestMore(t *testing.T) {
	for name, want := range map[string]string{
		"items of a list": "error: ResourceClaim b/a: 2000 more findings of this rule in the object, not listed [toleration-key]",
		"unknown fields":  "error: ResourceClaim b/a: 2000 more findings of this rule in the object, not listed [unknown-field]",
		"wrong types":     "error: ResourceClaim b/a: 2000 more findings of this rule in the object, not listed [wrong-type]",
	} {
		found := strings.TrimSpace(findings(t, shapes()[name](3000), ""))
		if lines := strings.Split(found, "\n"); len(lines) > 2100 || !strings.Contains(strings.Join(lines[len(lines)-3:], "\n"), want) {
			t.Errorf("%s: %d lines, the last are %q", name, len(lines), lines[max(0, len(lines)-3):])
		}
	}
}
