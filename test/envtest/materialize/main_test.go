package materialize_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  resources: [{group: resource.k8s.io, resources: [resourceslices]}]
- level: Metadata
  users: ["system:serviceaccount:dra-steward:dra-steward", "system:serviceaccount:dra-steward:dra-steward-controller"]
- level: None
`

var (
	cluster *envtest.Cluster
	shared  installation
)

func TestMain(m *testing.M) {
	if os.Getenv(fatalDriver) != "" {
		os.Exit(runFatalDriver())
	}
	flag.Parse()
	// The tests wait most of the time, each for a driver of its own.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(envtest.Main(closing{m}, envtest.Options{
		DeviceTaintRules: true, AuditPolicy: auditPolicy, FeatureGates: map[string]bool{"DRAConsumableCapacity": true}, // off in 1.34 and 1.35
	}, func(c *envtest.Cluster) { cluster = c }))
}

// closing runs tests, and ends what they share while there is an API server.
type closing struct{ m *testing.M }

func (c closing) Run() int {
	code := c.m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// An installation is dra-steward in the cluster. Tests that change it run one after the
// other, the rest beside each other after these, with the mode materialize.
type installation struct {
	mutex sync.Mutex
	mode  string
	args  []string
	// untyped leaves out our types.
	untyped bool
	guard   *guard.Guard
	steward *controller.Controller
	// log is that of the webhook.
	log *proc.Log
}

// quick makes the controller write slices at once: too early now and then for the webhook, so
// that it writes them again. Tests that count writes do without.
const quick = "--patch-delay=200ms"

// use installs dra-steward in a mode, if it is not, and starts what does not run. The
// controller has these arguments beside those of the chart.
func (i *installation) use(t *testing.T, mode string, args ...string) {
	t.Helper()
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.mode != mode || !slices.Equal(i.args, args) {
		i.shut(t)
	}
	i.mode, i.args = mode, args
	begin := time.Now()
	i.openWebhook(t)
	i.openController(t)
	if since := time.Since(begin); since > time.Millisecond {
		t.Logf("%s is installed after %s", mode, since)
	}
}

// shut stops webhook and controller.
func (i *installation) shut(t *testing.T) {
	t.Helper()
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}

func (i *installation) stop() error { return errors.Join(i.stopWebhook(), i.stopController()) }

func (i *installation) values() map[string]any {
	return map[string]any{"patches": map[string]any{"mode": i.mode, "poolsPerSecond": 50},
		"crds": map[string]any{"install": !i.untyped}}
}

func (i *installation) openWebhook(t *testing.T) {
	t.Helper()
	if i.guard != nil {
		return
	}
	var err error
	i.log = &proc.Log{}
	if i.guard, err = guard.Start(t.Context(), cluster, guard.Options{Values: i.values(), Log: i.log}); err != nil {
		t.Fatalf("%v; its log:\n%s", err, i.log)
	}
}

func (i *installation) openController(t *testing.T) {
	t.Helper()
	if i.steward != nil {
		return
	}
	args, err := controller.Install(t.Context(), cluster, i.values())
	if err != nil {
		t.Fatal(err)
	}
	if i.steward, err = controller.Start(t.Context(), append(append(args, "--patch-status-gap=1s"), i.args...)); err != nil {
		t.Fatal(err)
	}
}

// shutWebhook stops the webhook; its configuration stays.
func (i *installation) shutWebhook(t *testing.T) {
	t.Helper()
	if err := i.stopWebhook(); err != nil {
		t.Error(err)
	}
}

func (i *installation) stopWebhook() error {
	if i.guard == nil {
		return nil
	}
	defer func() { i.guard = nil }()
	return i.guard.Stop()
}

func (i *installation) stopController() error {
	if i.steward == nil {
		return nil
	}
	defer func() { i.steward = nil }()
	if err := i.steward.Stop(); err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, i.steward.Log())
	}
	return nil
}

// logs shows what webhook and controller have logged, where a test has failed.
func (i *installation) logs(t *testing.T) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.log != nil {
		t.Logf("log of the webhook:\n%s", i.log)
	}
	if i.steward != nil {
		t.Logf("log of the controller:\n%s", i.steward.Log())
	}
}

// A site is the driver of one test, with its patches, in an installation.
type site struct {
	t       *testing.T
	c       kubernetes.Interface
	patches dynamic.ResourceInterface
	driver  string
	plugin  *resourceslice.Controller
	// patched are the patches that the test has made.
	patched map[string]bool

	mutex sync.Mutex
	errs  []error
}

// newSite uses the shared installation in a mode.
func newSite(t *testing.T, mode string, args ...string) *site {
	t.Helper()
	s := &site{t: t, driver: strings.ToLower(t.Name()) + ".example.com", patched: map[string]bool{}}
	config := cluster.Config()
	config.QPS, config.Burst = 100, 100
	var err error
	if s.c, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.patches = untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
	t.Cleanup(func() {
		if t.Failed() {
			shared.logs(t)
		}
		s.stop()
		ctx := context.WithoutCancel(t.Context())
		for name := range s.patched {
			_ = s.patches.Delete(ctx, name, metav1.DeleteOptions{})
		}
		_ = s.c.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + s.driver})
	})
	shared.use(t, mode, args...)
	return s
}

// user is the identity of the driver.
func (s *site) user() string { return s.driver + "-driver" }

// named is the name in the cluster of a patch of the test.
func (s *site) named(patch string) string { return strings.ToLower(s.t.Name()) + "-" + patch }

// publish starts the driver, or lets a running one publish something else. Each device is a
// model and the memory in Gi.
func (s *site) publish(pools ...[][]resourceapi.Device) {
	s.t.Helper()
	resources := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	for i, all := range pools {
		pool := resourceslice.Pool{AllNodes: true}
		for _, devices := range all {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
		}
		resources.Pools[fmt.Sprint("pool-", i)] = pool
	}
	if s.plugin != nil {
		s.plugin.Update(resources)
		return
	}
	config, err := cluster.User(s.user(), "system:masters")
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.plugin, err = resourceslice.StartController(context.WithoutCancel(s.t.Context()), resourceslice.Options{
		DriverName: s.driver, KubeClient: c, Resources: resources, SyncDelay: new(delay()),
		ErrorHandler: func(_ context.Context, err error, _ string) {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			s.errs = append(s.errs, err)
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// stop stops the driver, which forgets all.
func (s *site) stop() {
	if s.plugin != nil {
		s.plugin.Stop()
		s.plugin = nil
	}
}

// device is one of a driver.
func device(name, model string) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: &model},
	}}
}

// one is a pool of one slice.
func one(devices ...resourceapi.Device) [][]resourceapi.Device {
	return [][]resourceapi.Device{devices}
}

// patch creates or replaces a patch of the driver's devices, given the YAML of what is in
// spec.devices beside the filter.
func (s *site) patch(name, devices string) {
	s.t.Helper()
	name = s.named(name)
	s.patched[name] = true
	object := &unstructured.Unstructured{}
	manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: {devices: %s}\n", v1alpha1.APIVersion, v1alpha1.ResourceSlicePatchKind, name, devices)
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		s.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(object.Object, s.driver, "spec", "devices", "filter", "driver"); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.patches.Apply(s.t.Context(), name, object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) unpatch(name string) {
	s.t.Helper()
	if err := s.patches.Delete(s.t.Context(), s.named(name), metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) slices() []resourceapi.ResourceSlice {
	s.t.Helper()
	list, err := s.c.ResourceV1().ResourceSlices().List(s.t.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + s.driver})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// shows waits until the devices have these attributes: "a: model=x rack=r".
func (s *site) shows(want ...string) {
	s.t.Helper()
	var got []string
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		got = describe(s.slices())
		return slices.Equal(got, want), nil
	})
	if err != nil {
		s.t.Fatalf("the slices show %q, want %q", got, want)
	}
}

// stays is shows, and that nothing is written for a while.
func (s *site) stays(want ...string) {
	s.t.Helper()
	s.quiet()
	before := s.writes("")
	<-time.After(idle()) // nothing happens: there is nothing else to wait for
	if after := s.writes(""); after != before {
		s.t.Errorf("%d writes in %s in which nothing happens", after-before, idle())
	}
	s.shows(want...)
}

// quiet waits until the driver has answered the last write of a slice with one of its own,
// by which it takes over what is there, and a little longer than it waits for that.
func (s *site) quiet() {
	s.t.Helper()
	silence := max(delay()*3/2, 2*time.Second)
	written, since := -1, time.Now()
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 10*time.Minute, true, func(context.Context) (bool, error) {
		all := s.written()
		if n := len(all); n != written {
			written, since = n, time.Now()
		}
		answered := s.plugin == nil || len(all) == 0 || all[len(all)-1] == s.user()
		return answered && time.Since(since) > silence, nil
	})
	if err != nil {
		s.t.Fatalf("writes do not end: %q", s.written())
	}
}

// long is set in make test-long.
func long() bool { return os.Getenv("DRA_STEWARD_LONG") != "" }

// delay is how long the driver waits before it looks at what it has written: half a second,
// or, in the long tests, the half minute that it waits by itself.
func delay() time.Duration {
	if long() {
		return resourceslice.DefaultSyncDelay
	}
	return 500 * time.Millisecond
}

// idle is how long nothing may be written: the next attempt of a driver or of ours would come
// within two seconds, or the half minute.
func idle() time.Duration {
	if long() {
		return time.Minute
	}
	return 3 * time.Second
}

func describe(all []resourceapi.ResourceSlice) (lines []string) {
	for _, slice := range all {
		for _, d := range slice.Spec.Devices {
			line := d.Name + ":"
			for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
				a := d.Attributes[name]
				if a.StringValue != nil {
					line += fmt.Sprintf(" %s=%s", name, *a.StringValue)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
				c := d.Capacity[name]
				line += fmt.Sprintf(" %s=%s", name, c.Value.String())
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// writes counts the writes of the driver's slices so far, of a user or all ("").
func (s *site) writes(user string) (n int) {
	s.t.Helper()
	for _, by := range s.written() {
		if user == "" || by == user {
			n++
		}
	}
	return n
}

// stored counts the slices of the driver that are stored from now on. An update that changes
// nothing is not stored: a controller that is ahead of the webhook sends some.
func (s *site) stored() (count func() int) {
	s.t.Helper()
	only := metav1.ListOptions{FieldSelector: "spec.driver=" + s.driver}
	list, err := s.c.ResourceV1().ResourceSlices().List(s.t.Context(), only)
	if err != nil {
		s.t.Fatal(err)
	}
	only.ResourceVersion = list.ResourceVersion
	watching, err := s.c.ResourceV1().ResourceSlices().Watch(s.t.Context(), only)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(watching.Stop)
	var n atomic.Int64
	go func() {
		for range watching.ResultChan() {
			n.Add(1)
		}
	}()
	return func() int { return int(n.Load()) }
}

// written are the users that have written slices of the driver, one for each write.
func (s *site) written() (users []string) {
	s.t.Helper()
	for _, r := range requests(s.t) {
		ours := r.User.Username == s.user() || strings.Contains(r.ObjectRef.Name, "-"+s.driver+"-")
		if r.ObjectRef.Resource == "resourceslices" && r.Verb != "list" && r.Verb != "watch" && ours && r.ResponseStatus.Code < 300 {
			users = append(users, r.User.Username)
		}
	}
	return users
}

// A request is an entry of the audit log.
type request struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Namespace, Name string }
	ResponseStatus struct{ Code int }
}

// requests are those in the audit log.
func requests(t *testing.T) (all []request) {
	t.Helper()
	for _, r := range testaudit.Entries[request](t, cluster.AuditLog(), 0) {
		all = append(all, *r)
	}
	return all
}

// applied waits for the condition Applied of a patch.
func (s *site) applied(name, status, reason, message string) {
	s.t.Helper()
	s.condition(name, v1alpha1.PatchApplied, status, reason, message)
}

// condition waits for a condition of a patch.
func (s *site) condition(name, kind, status, reason, message string) {
	s.t.Helper()
	var got map[string]any
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		object, err := s.patches.Get(ctx, s.named(name), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, c := range all {
			if c := c.(map[string]any); c["type"] == kind {
				got = c
				return got["status"] == status && got["reason"] == reason && strings.Contains(got["message"].(string), message), nil
			}
		}
		return false, nil
	})
	if err != nil {
		s.t.Fatalf("patch %s: %s is %v, want %s %s %q", name, kind, got, status, reason, message)
	}
}
