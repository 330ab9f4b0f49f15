package packed_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/memory/packed"
)

// TestLines: the first lines that fit are kept, and are read again.
func TestLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var lines [][]byte
	for range 100 {
		lines = append(lines, fmt.Appendf(nil, "%x", random.Uint64()))
	}
	for _, limit := range []int{0, 20, 500, 1 << 20} {
		data, fit, err := packed.Lines(lines, limit)
		if err != nil || len(data) > limit {
			t.Fatalf("limit %d: %d bytes, %v", limit, len(data), err)
		}
		if more, _, _ := packed.Lines(lines[:min(fit+1, 100)], 1<<20); fit < 100 && len(more) <= limit {
			t.Errorf("limit %d: %d lines, and one more fits", limit, fit)
		}
		want := ""
		if fit > 0 {
			want = string(bytes.Join(lines[:fit], []byte("\n"))) + "\n"
		}
		if text, err := packed.Text(data, 1<<20); err != nil || string(text) != want {
			t.Errorf("limit %d: read %q, %v", limit, text, err)
		}
	}
}

// TestText: what is no compressed text, or too much, is an error.
func TestText(t *testing.T) {
	data, _, err := packed.Lines([][]byte{[]byte(strings.Repeat("x", 1<<20))}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := packed.Text(data, 1000); err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") {
		t.Error(err)
	}
	for _, wrong := range [][]byte{[]byte("else"), data[:len(data)/2]} {
		if _, err := packed.Text(wrong, 2<<20); err == nil {
			t.Errorf("%.10q is read", wrong)
		}
	}
}
