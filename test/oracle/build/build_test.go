package build

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	for _, version := range Versions() {
		for _, wanted := range []string{version, Minor(version)} {
			got, err := resolve(wanted)
			if err != nil || got.version != version || len(got.mod) == 0 || len(got.sum) == 0 {
				t.Errorf("%s: %q, %v; want %s with its module files", wanted, got.version, err, version)
			}
			if !strings.Contains(string(got.mod), "k8s.io/kubernetes v"+version+"\n") {
				t.Errorf("modules/%s.mod does not require k8s.io/kubernetes v%[1]s", version)
			}
		}
	}
	if _, err := resolve("1.3"); err == nil || !strings.Contains(err.Error(), strings.Join(Versions(), ", ")) {
		t.Errorf("%v, want an error that lists what there is", err)
	}
}

// TestTags: every minor has a file of the program for itself.
func TestTags(t *testing.T) {
	var all strings.Builder
	err := source(func(name string, content []byte) error {
		if strings.HasPrefix(name, "minor_") {
			all.Write(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range Versions() {
		if tag := (release{version: version}).tag(); !strings.Contains(all.String(), tag) {
			t.Errorf("no file of the program has the build tag %s", tag)
		}
	}
}

func TestKey(t *testing.T) {
	one := release{"1.37.0", []byte("a"), []byte("b")}
	var keys []string
	for _, r := range []release{one, {"1.36.3", one.mod, one.sum}, {"1.37.0", []byte("x"), one.sum}, {"1.37.0", one.mod, []byte("x")}, {"1.37.0", []byte("ab"), nil}} {
		key, err := r.key(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if again, err := one.key(t.Context(), t.TempDir()); err != nil || again != keys[0] {
		t.Errorf("the same inputs give %s and %s, %v", keys[0], again, err)
	}
	slices.Sort(keys)
	if len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("different inputs share a key: %s", keys)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cache := t.TempDir()
	stop := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if _, err := Program(ctx, Options{Minor: "1.37", Cache: cache, Output: stop}); err == nil {
		t.Fatal("a cancelled build succeeded")
	}
	left, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if filepath.Ext(entry.Name()) != ".lock" {
			t.Errorf("left in the cache: %s", entry.Name())
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
