package materialize_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
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
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/controller"
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
- level: None
`

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m, envtest.Options{AuditPolicy: auditPolicy}, func(c *envtest.Cluster) { cluster = c }))
}

// A site is an installation, with the driver of one test.
type site struct {
	t       *testing.T
	c       kubernetes.Interface
	patches dynamic.ResourceInterface
	mode    string
	guard   *guard.Guard
	steward *controller.Controller
	driver  string
	plugin  *resourceslice.Controller
	// written is the number of writes that was seen last, since when there were as many.
	written int
	since   time.Time

	mutex sync.Mutex
	errs  []error
}

// newSite installs dra-steward in a mode.
func newSite(t *testing.T, mode string) *site {
	t.Helper()
	s := &site{t: t, driver: strings.ToLower(t.Name()) + ".example.com"}
	config := cluster.Config()
	var err error
	if s.c, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.patches = untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
	s.install(mode)
	t.Cleanup(func() {
		s.stop()
		s.shutWebhook()
		s.shutController()
		ctx := context.WithoutCancel(t.Context())
		_ = s.patches.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		_ = s.c.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	return s
}

// install installs or upgrades webhook and controller.
func (s *site) install(mode string) {
	s.t.Helper()
	s.mode = mode
	s.shutWebhook()
	s.shutController()
	s.openWebhook()
	args, err := controller.Install(s.t.Context(), cluster, s.values())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.steward, err = controller.Start(s.t.Context(), args); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) values() map[string]any {
	return map[string]any{"patches": map[string]any{"mode": s.mode, "poolsPerSecond": 50}}
}

func (s *site) openWebhook() {
	s.t.Helper()
	log := &proc.Log{}
	var err error
	if s.guard, err = guard.Start(s.t.Context(), cluster, guard.Options{Values: s.values(), Log: log}); err != nil {
		s.t.Fatalf("%v; its log:\n%s", err, log)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("log of the webhook:\n%s", log)
		}
	})
}

// shutWebhook stops the webhook; its configuration stays.
func (s *site) shutWebhook() {
	if s.guard != nil {
		if err := s.guard.Stop(); err != nil {
			s.t.Error(err)
		}
		s.guard = nil
	}
}

func (s *site) shutController() {
	if s.steward != nil {
		if err := s.steward.Stop(); err != nil {
			s.t.Errorf("%v\n%s", err, s.steward.Log())
		}
		if s.t.Failed() {
			s.t.Logf("log of the controller:\n%s", s.steward.Log())
		}
		s.steward = nil
	}
}

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
	config, err := cluster.User(s.driver+"-driver", "system:masters")
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.plugin, err = resourceslice.StartController(context.WithoutCancel(s.t.Context()), resourceslice.Options{
		DriverName: s.driver, KubeClient: c, Resources: resources, SyncDelay: delay(),
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
	if err := s.patches.Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
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
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 90*time.Second, true, func(context.Context) (bool, error) {
		got = describe(s.slices())
		return slices.Equal(got, want), nil
	})
	if err != nil {
		s.t.Fatalf("the slices show %q, want %q", got, want)
	}
}

// stays is shows, and that nothing is written for a while.
func (s *site) stays(during time.Duration, want ...string) {
	s.t.Helper()
	s.quiet()
	before := s.writes("")
	<-time.After(during) // nothing happens: there is nothing else to wait for
	if after := s.writes(""); after != before {
		s.t.Errorf("%d writes in %s in which nothing happens", after-before, during)
	}
	s.shows(want...)
}

// quiet waits until nothing has been written for longer than the driver's delay.
func (s *site) quiet() {
	s.t.Helper()
	silence := 4 * time.Second
	if long() {
		silence = resourceslice.DefaultSyncDelay * 3 / 2
	}
	err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, 10*time.Minute, true, func(context.Context) (bool, error) {
		if n := s.writes(""); n != s.written {
			s.written, s.since = n, time.Now()
		}
		return time.Since(s.since) > silence, nil
	})
	if err != nil {
		s.t.Fatal("writes do not end")
	}
}

// long is set in make test-long.
func long() bool { return os.Getenv("DRA_STEWARD_LONG") != "" }

// delay is how long the driver waits before it looks at what it has written: a second, or,
// at length, the half minute that it waits by itself.
func delay() *time.Duration {
	if long() {
		return nil
	}
	return new(time.Second)
}

// idle is how long nothing may be written.
func idle() time.Duration {
	if long() {
		return time.Minute
	}
	return 5 * time.Second
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

// writes counts the writes of slices so far, of a user or all ("").
func (s *site) writes(user string) (n int) {
	s.t.Helper()
	file, err := os.Open(cluster.AuditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Verb           string
			User           struct{ Username string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.ResponseStatus.Code < 300 && (user == "" || entry.User.Username == user) {
			n++
		}
	}
	return n
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
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (bool, error) {
		object, err := s.patches.Get(ctx, name, metav1.GetOptions{})
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
