package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// helperVariable makes the test binary act as another process that asks for a
// binary of the cache it names.
const helperVariable = "DRA_STEWARD_ASSETS_TEST_CACHE"

func TestMain(m *testing.M) {
	if cache := os.Getenv(helperVariable); cache != "" {
		g, err := newGetter(Options{Cache: cache, Binaries: []string{Etcd}, IgnoreInstalled: true})
		if err == nil {
			g.build = standIn(filepath.Join(cache, "builds"))
			_, err = g.get(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// standIn builds empty files and appends a line to a record for each.
func standIn(record string) func(context.Context, buildRequest) error {
	return func(_ context.Context, r buildRequest) error {
		file, err := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		for _, name := range r.names {
			fmt.Fprintln(file, name)
			if err := os.WriteFile(filepath.Join(r.temp, name), nil, 0o755); err != nil {
				return err
			}
		}
		return nil
	}
}

func builds(t *testing.T, record string) []string {
	t.Helper()
	content, err := os.ReadFile(record)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

func getterFor(t *testing.T, o Options) *getter {
	t.Helper()
	if o.Output == nil {
		o.Output = t.Output()
	}
	g, err := newGetter(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// isolate hides what the machine that runs the test has installed.
func isolate(t *testing.T) {
	t.Helper()
	// The go command leaves a process behind that writes its counters there, also when
	// the test's folders are being removed.
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv(VersionVariable, "")
}

func TestResolve(t *testing.T) {
	for _, test := range []struct{ option, variable, want string }{
		{"", "", DefaultVersion},
		{"1.36", "1.35", "1.36.3"},
		{"", "1.35", "1.35.4"},
		{"v1.34.4", "", "1.34.4"},
		{"1.37.0", "", "1.37.0"},
	} {
		t.Setenv(VersionVariable, test.variable)
		got, err := resolve(test.option)
		if err != nil || got.kubernetes != test.want {
			t.Errorf("option %q, variable %q: got %q, %v; want %s", test.option, test.variable, got.kubernetes, err, test.want)
		}
	}
}

// TestEtcdOfMinor: etcd is of the minor whose client the API server is built with.
func TestEtcdOfMinor(t *testing.T) {
	minor := func(file []byte, module string) string {
		match := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` v(\d+\.\d+)\.`).FindSubmatch(file)
		if match == nil {
			t.Fatalf("no %s in %s", module, file)
		}
		return string(match[1])
	}
	for _, kubernetes := range Versions() {
		r, err := loadRelease(kubernetes)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := minor(r.etcd.mod, "go.etcd.io/etcd/server/v3"), minor(r.kube.mod, "go.etcd.io/etcd/client/v3"); got != want {
			t.Errorf("Kubernetes %s has etcd %s, want %s", kubernetes, got, want)
		}
	}
}

func TestResolveUnknown(t *testing.T) {
	t.Setenv(VersionVariable, "1.9")
	for _, wanted := range []string{"", "1", "1.3", "1.37.2", "latest"} {
		_, err := resolve(wanted)
		if err == nil || !strings.Contains(err.Error(), "1.34.4, 1.35.4, 1.36.3, 1.37.0") {
			t.Errorf("%q: %v; want an error that lists what is available", wanted, err)
		}
	}
	if _, err := resolve(""); !strings.HasPrefix(err.Error(), VersionVariable) {
		t.Errorf("%v; want an error that names the variable", err)
	}
}

func TestUnknownBinary(t *testing.T) {
	_, err := Get(t.Context(), Options{Binaries: []string{"kubelet"}, Cache: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `unknown binary "kubelet"`) {
		t.Fatal(err)
	}
}

func TestKey(t *testing.T) {
	base := release{kubernetes: "1.37.0", kube: module{[]byte("a"), []byte("b")}, etcd: module{[]byte("c"), []byte("d")}}
	key := func(change func(*release), toolchain string) string {
		r := base
		change(&r)
		return (&getter{release: r}).key(toolchain)
	}
	keys := []string{
		key(func(*release) {}, "go1.26.8"),
		key(func(*release) {}, "go1.26.9"),
		key(func(r *release) { r.kubernetes = "1.36.3" }, "go1.26.8"),
		key(func(r *release) { r.kube.mod = []byte("x") }, "go1.26.8"),
		key(func(r *release) { r.kube.sum = []byte("x") }, "go1.26.8"),
		key(func(r *release) { r.etcd.mod = []byte("x") }, "go1.26.8"),
		key(func(r *release) { r.etcd.sum = []byte("x") }, "go1.26.8"),
		key(func(r *release) { r.kube.mod, r.kube.sum = []byte("ab"), nil }, "go1.26.8"),
	}
	if again := key(func(*release) {}, "go1.26.8"); again != keys[0] {
		t.Errorf("the same inputs give %s and %s", keys[0], again)
	}
	slices.Sort(keys)
	if unique := slices.Compact(slices.Clone(keys)); len(unique) != len(keys) {
		t.Errorf("different inputs share a key: %s", keys)
	}
}

// script makes an executable that prints a version.
func script(t *testing.T, dir, name, output string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+output+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstalled(t *testing.T) {
	isolate(t)
	fromVariable, cache := t.TempDir(), t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", fromVariable)
	store := filepath.Dir(installedStore(t))
	script(t, fromVariable, APIServer, "Kubernetes v1.36.9")
	etcd := script(t, fromVariable, Etcd, "etcd Version: 3.5.21")
	script(t, fromVariable, Scheduler, "hello")
	script(t, installedStore(t), APIServer, "Kubernetes v1.37.1")
	newest := script(t, strings.Replace(installedStore(t), "1.37.1", "1.37.10", 1), APIServer, "Kubernetes v1.37.10")
	kubectl := script(t, installedStore(t), Kubectl, "Client Version: v1.37.1")

	var out bytes.Buffer
	g := getterFor(t, Options{Cache: cache, Output: &out})
	g.build = standIn(filepath.Join(cache, "builds"))
	set, err := g.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{APIServer: newest, Etcd: etcd, Kubectl: kubectl} {
		if set.Path(name) != want {
			t.Errorf("%s is %s, want %s of %s", name, set.Path(name), want, store)
		}
	}
	if built := builds(t, filepath.Join(cache, "builds")); !slices.Equal(built, []string{ControllerManager, Scheduler}) {
		t.Errorf("built %s, want what is missing only", built)
	}
	for _, want := range []string{
		"it is version 1.36.9, wanted is 1.37.0",
		"using kube-apiserver 1.37.10 from setup-envtest",
		"using etcd 3.5.21 from KUBEBUILDER_ASSETS",
		"it does not report its version",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	checkLinks(t, set)
}

// checkLinks checks that Dir has all binaries although they are in many places.
func checkLinks(t *testing.T, set *Set) {
	t.Helper()
	for range 2 { // the second call finds the links
		dir, err := set.Dir()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range Binaries() {
			if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != set.Path(name) {
				t.Errorf("%s links to %s, %v; want %s", name, target, err, set.Path(name))
			}
		}
	}
}

func TestFromCache(t *testing.T) {
	isolate(t)
	cache := t.TempDir()
	record := filepath.Join(cache, "builds")
	for _, wanted := range [][]string{{Etcd, APIServer}, {APIServer, Scheduler}, {Etcd, Scheduler}} {
		g := getterFor(t, Options{Cache: cache, Binaries: wanted})
		g.build = standIn(record)
		set, err := g.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if dir, err := set.Dir(); err != nil || filepath.Dir(dir) != cache {
			t.Errorf("Dir is %s, %v; want a folder in %s", dir, err, cache)
		}
	}
	if built := builds(t, record); !slices.Equal(built, []string{Etcd, APIServer, Scheduler}) {
		t.Errorf("built %s, want each once", built)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	isolate(t)
	cache := t.TempDir()
	g := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}})
	g.build = func(ctx context.Context, r buildRequest) error {
		return errors.Join(os.WriteFile(filepath.Join(r.temp, Etcd), nil, 0o755), errors.New("no space left"))
	}
	if _, err := g.get(t.Context()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatal(err)
	}
	expectOnlyLock(t, cache)
}

// expectOnlyLock checks that nothing built is in the cache.
func expectOnlyLock(t *testing.T, cache string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		inside, _ := filepath.Glob(filepath.Join(path, "*"))
		if !strings.HasSuffix(path, ".lock") && (!info.IsDir() || len(inside) > 0 || strings.Contains(path, ".build-")) {
			t.Errorf("left in the cache: %s %s", path, inside)
		}
	}
}

// watcher is a writer that closes seen when it reads a text.
type watcher struct {
	text string
	seen chan struct{}
	once sync.Once
}

func (w *watcher) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

func TestTwoBuildOnce(t *testing.T) {
	isolate(t)
	cache := t.TempDir()
	record := filepath.Join(cache, "builds")
	building := make(chan struct{})
	waiting := &watcher{text: fmt.Sprintf("waiting for process %d, which builds etcd", os.Getpid()), seen: make(chan struct{})}

	first := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}})
	first.build = func(ctx context.Context, r buildRequest) error {
		close(building)
		select {
		case <-waiting.seen:
		case <-ctx.Done():
		}
		return standIn(record)(ctx, r)
	}
	second := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}, Output: waiting})
	second.build = standIn(record)

	var both sync.WaitGroup
	both.Go(func() {
		if _, err := first.get(t.Context()); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() {
		<-building
		if _, err := second.get(t.Context()); err != nil {
			t.Error(err)
		}
	})
	both.Wait()
	if built := builds(t, record); len(built) != 1 {
		t.Errorf("built %s, want etcd once", built)
	}
}

func TestWaitingEndsWithContext(t *testing.T) {
	isolate(t)
	cache := t.TempDir()
	waiting := &watcher{text: "waiting for", seen: make(chan struct{})}
	second := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}, Output: waiting})
	first := getterFor(t, Options{Cache: cache, Binaries: []string{Etcd}})
	first.build = func(ctx context.Context, r buildRequest) error {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-waiting.seen
			cancel()
		}()
		if _, err := second.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting ends with %v", err)
		}
		return standIn(filepath.Join(cache, "builds"))(ctx, r)
	}
	if _, err := first.get(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestProcessesBuildOnce(t *testing.T) {
	isolate(t)
	cache := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), helperVariable+"="+cache)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	if built := builds(t, filepath.Join(cache, "builds")); len(built) != 1 {
		t.Errorf("built %s, want etcd once", built)
	}
}
