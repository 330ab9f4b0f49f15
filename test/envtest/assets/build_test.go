package assets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// installedStore returns a folder of setup-envtest's store for 1.37.1.
func installedStore(t *testing.T) string {
	t.Helper()
	store, err := envtest.SetupEnvtestDefaultBinaryAssetsDirectory()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOOS", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(store, "1.37.1-"+strings.Join(strings.Fields(string(out)), "-"))
}

// small is a module whose dependency, the standard library's pack, builds fast.
func small() module {
	return module{mod: []byte("module example.com/small\n\ngo 1.26.0\n")}
}

func requestFor(t *testing.T) buildRequest {
	t.Helper()
	return buildRequest{release: release{kubernetes: "1.37.0"}, names: []string{Etcd}, temp: t.TempDir(), log: newProgress(t.Output())}
}

func TestBuild(t *testing.T) {
	t.Setenv("GOOS", "plan9") // must not reach the go command
	t.Setenv("GOFLAGS", "-mod=vendor")
	r := requestFor(t)
	if err := r.run(t.Context(), "pack", small(), "tool", "cmd/pack"); err != nil {
		t.Fatal(err)
	}
	err := exec.Command(filepath.Join(r.temp, "tool")).Run()
	if exit := new(exec.ExitError); !errors.As(err, &exit) { // it wants arguments
		t.Fatalf("the built binary does not run: %v", err)
	}
}

func TestBuildError(t *testing.T) {
	r := requestFor(t)
	err := r.run(t.Context(), "nothing", small(), "tool", "example.com/small/nothing")
	if err == nil || !strings.Contains(err.Error(), "building nothing for Kubernetes 1.37.0") ||
		!strings.Contains(err.Error(), "example.com/small/nothing") {
		t.Fatalf("%v; want an error that repeats what go says", err)
	}
}

// TestInterruptedBuild cancels a build while it compiles.
func TestInterruptedBuild(t *testing.T) {
	goCache := t.TempDir() // nothing is compiled yet
	isolate(t)
	t.Setenv("GOCACHE", goCache)
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}})
	g.build = func(ctx context.Context, r buildRequest) error {
		dir := filepath.Join(r.temp, "module")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), small().mod, 0o644); err != nil {
			return err
		}
		_, err := r.goCommand(ctx, dir, func([]byte) { cancel() }, "build", "-v", "-o", r.temp+"/"+Etcd, "cmd/pack")
		return err
	}
	if _, err := g.get(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	expectOnlyLock(t, cache)
	if left := commandsWith(t, cache); len(left) > 0 {
		t.Errorf("processes left: %s", left)
	}
}

// commandsWith returns the running commands that mention a text.
func commandsWith(t *testing.T, text string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-axo", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
