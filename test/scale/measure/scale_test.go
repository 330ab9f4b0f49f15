package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/scale"
	"github.com/dra-steward/dra-steward/test/scale/load"
	"github.com/dra-steward/dra-steward/tools/build"
)

// stepsVariable has the numbers of nodes to measure, separated by commas; the default is 100.
const stepsVariable = "DRA_STEWARD_SCALE"

// needsScale skips a test that takes minutes, unless numbers of nodes are set.
func needsScale(t *testing.T) {
	t.Helper()
	if os.Getenv(stepsVariable) == "" {
		t.Skipf("it takes minutes in a large cluster: set %s=100, or run make test-long, which does it with 1,000 nodes", stepsVariable)
	}
}

// rounds is how often each command runs, by turns with bare lists, of which the median counts,
// and how long other measurements take.
func rounds() int {
	if os.Getenv(stepsVariable) == "" {
		return 1 // so that make test takes a minute
	}
	return 3
}

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(listsVariable); kubeconfig != "" {
		if err := bareLists(kubeconfig, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestScale measures each step in a control plane of its own and prints a table.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("no control plane is started in short mode")
	}
	var steps []*step
	program := buildProgram(t)
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(stepsVariable), "100"), ",") {
		nodes, err := strconv.Atoi(text)
		must(t, err)
		t.Run(text+" nodes", func(t *testing.T) {
			if s := measure(t, scale.Cluster{Nodes: nodes, Seed: 1}, program); s != nil {
				steps = append(steps, s)
				record(t, s)
				t.Logf("\n%s", table(steps, machine()))
			}
		})
	}
}

// machine describes what limits the figures.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg") // nothing where there is none
	one, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s: %d cores for dra-steward, the API server and etcd together, load %s at the end.", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), one)
}

func measure(t *testing.T, w scale.Cluster, program string) *step {
	t.Helper()
	// etcd reads from here what its arguments leave open.
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", strconv.Itoa(8<<30))
	// Without a controller manager no node is given up because it has no Lease.
	cluster, err := envtest.Start(t.Context(), envtest.Options{AuditPolicy: auditPolicy, DeviceTaintRules: true, Output: logWriter{t}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &step{nodes: w.Nodes}
	r := newRelease(t, cluster, program, nil)
	r.install(t)
	fill(t, cluster, w, s)
	config := cluster.Config()
	config.QPS, config.WarningHandler, config.ContentType = -1, rest.NoWarnings{}, apiruntime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	hook := r.start(t, "webhook")
	s.addGrowing("webhook: ready", hook.ready.Seconds(), "s", "")
	r.connect(t)
	measureGuard(t, clients, w, s)
	hook.settle(t)
	s.addGrowing("webhook: memory", rss(t, hook.command.Process.Pid), "MiB", "< 512 MiB")
	measureWrites(t, clients, r, hook, w, s)
	s.addGrowing("webhook: peak memory, writes included", peak(t, hook.command.Process.Pid), "MiB", "< 512 MiB")
	controller := r.start(t, "controller")
	s.addGrowing("controller: leads", controller.leads.Seconds(), "s", "< 20 s")
	controller.settle(t)
	s.addGrowing("controller: memory", rss(t, controller.command.Process.Pid), "MiB", "< 600 MiB")
	s.addGrowing("controller: peak memory", peak(t, controller.command.Process.Pid), "MiB", "")
	s.add("controller: idle", controller.idle(t, time.Duration(10*rounds())*time.Second), "% of a core", "< 1 %")
	measureCommands(t, cluster, program, clients, s)
	s.addGrowing("API server: memory", rss(t, component(t, assets.APIServer, cluster.Dir())), "MiB", "")
	s.addGrowing("etcd: memory", rss(t, component(t, assets.Etcd, cluster.Dir())), "MiB", "")
	return s
}

// fill gives the cluster the objects of a world: those of an earlier run, or new ones, which are
// kept.
func fill(t *testing.T, cluster *envtest.Cluster, w scale.Cluster, s *step) {
	t.Helper()
	cache, err := assets.DefaultCache()
	must(t, err)
	file := filepath.Join(cache, "scale", fmt.Sprintf("%s-kubernetes-%s.gz", w, cluster.Version()))
	begin := time.Now()
	keys, err := load.Restore(t.Context(), cluster.Etcd(), file)
	if errors.Is(err, fs.ErrNotExist) {
		stats, err := load.Cluster(t.Context(), cluster.Config(), w, logWriter{t})
		must(t, err)
		t.Logf("%v: loaded %v", w, stats)
		s.add("load: writes a second that the API server took", float64(stats.Writes)/stats.Took.Seconds(), "/s", "")
		must(t, load.Save(t.Context(), cluster.Etcd(), file))
	} else {
		must(t, err)
		t.Logf("%v: restored %d keys in %v", w, keys, time.Since(begin).Round(100*time.Millisecond))
	}
	clients, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	eventually(t, "the API server has all claims and pods", func(ctx context.Context) error {
		claims, err := clients.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		pods, err := clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if c, p := stored(claims), stored(pods); c != w.Claims() || p != w.Claims() {
			return fmt.Errorf("%d claims and %d pods, want %d", c, p, w.Claims())
		}
		return nil
	})
}

// stored is how many objects there are of which a list has the first.
func stored(list metav1.ListInterface) int {
	if remaining := list.GetRemainingItemCount(); remaining != nil {
		return int(*remaining) + 1
	}
	return 1
}

// buildProgram builds the program as its image has it.
func buildProgram(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dra-steward/dra-steward").Output()
	must(t, err)
	tree := strings.TrimSpace(string(out))
	stamp, err := build.Read(t.Context(), tree)
	must(t, err)
	program := filepath.Join(t.TempDir(), "dra-steward")
	must(t, build.Program(t.Context(), build.Options{Tree: tree, Output: program, Stamp: stamp}))
	return program
}

// logWriter writes lines to the log of a test.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check has nothing to say.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, errors.Join(err, last))
	}
}

// TestTable: the exponent is that of the last two steps, and what grows too fast is named.
func TestTable(t *testing.T) {
	small, large := &step{nodes: 100}, &step{nodes: 1000}
	small.addGrowing("linear", 1, "s", "< 10 s")
	large.addGrowing("linear", 10, "s", "< 10 s")
	small.addGrowing("square", 1, "s", "")
	large.addGrowing("square", 100, "s", "")
	large.add("ratio", 1.234, "", "≤ 1.3")
	got := table([]*step{small, large}, "Two cores.")
	for _, want := range []string{"| linear | 1.00 s | 10.0 s | 1.00 | < 10 s |\n", "| ratio | | 1.23 |  | ≤ 1.3 |\n", "exponent above 1.1: square (2.00)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}
