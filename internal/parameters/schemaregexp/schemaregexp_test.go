package schemaregexp

import (
	"runtime"
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	for pattern, want := range map[string]bool{
		"":                                true,
		"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": true,
		"^.{0,1000}$":                     true,
		"(":                               false,
		"(?:" + strings.Repeat("ab", 1600) + "){1000}": false,
		"((a{100}){100}){100}":                         false,
		"(a{1000,}b){1000}":                            false,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compiled, err := Compile(pattern)
		runtime.ReadMemStats(&after)
		if (err == nil) != want || (compiled != nil) != want {
			t.Errorf("%.40q: %v, want ok: %t", pattern, err, want)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
			t.Errorf("%.40q: %d bytes", pattern, grown)
		}
	}
}

// TestLargest: a pattern of the largest size is compiled in little memory.
func TestLargest(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Compile("^.{0,1000}$"); err != nil {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 2<<20 {
		t.Errorf("%d bytes", after.TotalAlloc-before.TotalAlloc)
	}
}
