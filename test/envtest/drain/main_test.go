package drain_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

const (
	ours = controller.User
	// argsVariable makes the test binary the program itself, so that it can be killed.
	argsVariable = "DRA_STEWARD_TEST_ARGS"

	auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
`
)

// What the tests share: each has a namespace and a driver of its own.
var (
	cluster *envtest.Cluster
	c       kubernetes.Interface
	drains  dynamic.ResourceInterface
	rules   dynamic.ResourceInterface
	// steward is the controller, standby another one with leader election, which no test has
	// started.
	steward, standby *program
)

func TestMain(m *testing.M) {
	if args := os.Getenv(argsVariable); args != "" {
		os.Exit(cli.Run(context.Background(), strings.Split(args, "\n"), cmdutil.Streams{Out: os.Stderr, Err: os.Stderr}))
	}
	o := envtest.Options{
		Kubernetes:        os.Getenv(assets.VersionVariable),
		ControllerManager: true, Scheduler: true, Kubectl: true, Nodes: []string{"node-0", "node-1", "node-2"}, AuditPolicy: auditPolicy,
		// So that there are PodGroups with claims, and EvictionRequests.
		FeatureGates:  map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true, "EvictionRequestAPI": true, "ResourceHealthStatus": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true, "lifecycle.k8s.io/v1alpha1": true},
	}
	// The older minors serve no DeviceTaintRules and no PodGroups, and the newest one does.
	which, choice := "^TestWithoutRules$|^TestLong|^TestClusterUpgrade$", "test.skip"
	if version := os.Getenv(assets.VersionVariable); version != "" && !strings.HasPrefix(assets.DefaultVersion, version) {
		which, choice = "^TestWithoutRules$", "test.run"
		o.FeatureGates, o.RuntimeConfig = nil, nil
	}
	switch {
	case long() && upgrades():
		which, choice = "^TestClusterUpgrade$", "test.run"
		o.DeviceTaintRules = true
	case long(): // make test-long
		which, choice = "^TestLong", "test.run"
		for i := 3; i < 50; i++ {
			o.Nodes = append(o.Nodes, fmt.Sprint("node-", i))
		}
	}
	// They wait most of the time, so that all go on at once.
	if err := errors.Join(flag.Set(choice, which), flag.Set("test.parallel", "12")); err != nil {
		panic(err)
	}
	os.Exit(envtest.Main(tests{m}, o, func(started *envtest.Cluster) {
		cluster = started
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			_ = cluster.Stop()
			os.Exit(1)
		}
	}))
}

// upgrades reports whether the cluster begins with the minor before the newest one.
func upgrades() bool { return strings.HasPrefix(os.Getenv(assets.VersionVariable), "1.36") }

func long() bool { return os.Getenv("DRA_STEWARD_LONG") != "" }

// takesMinutes skips a test of 45 seconds to three minutes unless DRA_STEWARD_SLOW is set, as in make test-long.
func takesMinutes(t *testing.T) {
	t.Helper()
	if os.Getenv("DRA_STEWARD_SLOW") == "" {
		t.Skip("takes 45 seconds to three minutes on two cores, which .ci/run does not have for it; make test-long runs it, as does DRA_STEWARD_SLOW=1")
	}
}

// tests end the controller before the cluster ends.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer func() { _ = steward.kill() }()
	return t.M.Run()
}

// prepare installs what the chart has for the controller, and starts it.
func prepare() (err error) {
	if c, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return err
	}
	drains = untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceDrainResource))
	rules = untyped.Resource(cluster.DeviceTaintRules())
	if err := createNamespaces(context.Background()); err != nil {
		return err
	}
	args, err := install()
	if err != nil {
		return err
	}
	standby = &program{name: "standby", args: args}
	// It loses its Lease while the API server is away.
	steward = &program{name: "dra-steward", args: args, again: upgrades()}
	if !upgrades() {
		// A killed leader keeps the Lease for 15 s, each time.
		steward.args = append(slices.Clone(args), "--leader-elect=false")
	}
	return steward.start()
}

// install applies what the chart has for the controller, and returns its arguments.
func install() ([]string, error) {
	return controller.Install(context.Background(), cluster, values())
}

// values are those of the chart.
func values() map[string]any {
	v := map[string]any{
		"controller": map[string]any{"drains": map[string]any{"backoff": "20s", "deadlineDelete": true, "evictionRequests": true, "foresight": true}, "reactions": map[string]any{"enabled": true,
			"proofs": map[string]any{"enabled": true, "namespace": reactionProofs, "createNamespace": false}},
			"rolls": map[string]any{"enabled": true, "nodes": true, "driverNamespaces": []any{driversNamespace}, "proofNamespaces": []any{proofsNamespace}}},
	}
	if upgrades() { // with the webhook, which refuses none of the claims and rules of the test
		v["mode"], v["patches"] = "warn", map[string]any{"mode": "materialize"}
	}
	return v
}

// A program is dra-steward as a process that can be killed.
type program struct {
	name string
	args []string
	// again starts it again when it ends by itself, as a kubelet does: it ends when it
	// loses its Lease.
	again  bool
	mutex  sync.Mutex
	run    *exec.Cmd
	ended  chan struct{}
	killed bool
	runs   int
}

func (p *program) log() string {
	return filepath.Join(cluster.Dir(), fmt.Sprintf("%s-%d.log", p.name, p.runs))
}

func (p *program) start() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.killed = false
	return p.begin()
}

func (p *program) begin() error {
	p.runs++
	log, err := os.Create(p.log())
	if err != nil {
		return err
	}
	defer log.Close()
	run, ended := exec.Command(os.Args[0]), make(chan struct{})
	run.Env = append(os.Environ(), argsVariable+"="+strings.Join(p.args, "\n"))
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		return err
	}
	p.run, p.ended = run, ended
	go func() {
		_ = run.Wait() // that it was killed, or has lost its Lease
		close(ended)
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.again && !p.killed {
			_ = p.begin() // without it the test finds that no controller works
		}
	}()
	return nil
}

// kill is a SIGKILL: nothing is put in order, and the Lease is not released.
func (p *program) kill() error {
	p.mutex.Lock()
	p.killed = true
	err, ended := p.run.Process.Kill(), p.ended
	p.mutex.Unlock()
	<-ended
	if p.again && errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// An entry is a line of the audit log.
type entry struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }
	StageTimestamp time.Time
}

// asked returns what the controller has asked about the pods of a namespace, in order.
func asked(t *testing.T, namespace, resource, subresource string) (all []entry) {
	t.Helper()
	for _, e := range testaudit.Entries[entry](t, cluster.AuditLog(), 0) {
		if e.User.Username == ours && e.ObjectRef.Resource == resource && e.ObjectRef.Subresource == subresource && e.ObjectRef.Namespace == namespace {
			all = append(all, *e)
		}
	}
	return all
}

// evicted counts the evictions of a namespace that were accepted, by pod.
func evicted(t *testing.T, namespace string) map[string]int {
	t.Helper()
	by := map[string]int{}
	for _, e := range asked(t, namespace, "pods", "eviction") {
		if e.ResponseStatus.Code < 300 {
			by[e.ObjectRef.Name]++
		}
	}
	return by
}

// once fails if a pod was evicted twice.
func once(t *testing.T, namespace string) int {
	t.Helper()
	by := evicted(t, namespace)
	for pod, n := range by {
		if n > 1 {
			t.Errorf("%s was evicted %d times", pod, n)
		}
	}
	return len(by)
}
