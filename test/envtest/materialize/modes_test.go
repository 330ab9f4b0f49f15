package materialize_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// devices is what the command of that name says.
func (s *site) devices() string {
	s.t.Helper()
	var out, problems bytes.Buffer
	if code := cli.Run(s.t.Context(), []string{"devices", "--kubeconfig", cluster.Kubeconfig()}, cmdutil.Streams{Out: &out, Err: &problems}); code != cmdutil.ExitClean {
		s.t.Fatalf("devices: %d %s", code, &problems)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// TestModes: switched on, off, on again and to restore, nothing is lost; and readers are
// told in every mode what the driver published and which patch says what.
func TestModes(t *testing.T) {
	s := newSite(t, "none", quick)
	truth := func() {
		t.Helper()
		if got := s.devices(); !strings.Contains(got, "/model]: z, published x patch/"+s.named("model")) {
			t.Errorf("devices says %q", got)
		}
	}
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x")))
	s.shows("a: model=x")
	truth()
	shared.use(t, "materialize", quick)
	s.shows("a: model=z")
	s.quiet()
	truth()
	shared.use(t, "none", quick) // what is written stays until a user writes
	truth()
	shared.use(t, "materialize", quick)
	s.stays("a: model=z")
	truth()
	shared.use(t, "restore", quick)
	s.shows("a: model=x")
	s.quiet()
	s.shows("a: model=x")
	truth()
	shared.use(t, "materialize", quick)
	s.shows("a: model=z")
}

// TestBoth: while a scheduler says by its Lease that it applies patches, none is written into
// slices, and each says why; TestChart of the scheduler shows that it does say so.
func TestBoth(t *testing.T) {
	s := newSite(t, "materialize", quick)
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x")))
	s.shows("a: model=z")
	s.quiet()
	leases := s.c.CoordinationV1().Leases(record.SchedulerLeaseNamespace)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: record.SchedulerLeaseName}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("scheduler"), LeaseDurationSeconds: ptr.To(int32(3600)), RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))}}
	lease, err := leases.Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leases.Delete(context.WithoutCancel(t.Context()), lease.Name, metav1.DeleteOptions{}) })
	for what, log := range map[string]func() string{"webhook": shared.log.String, "controller": shared.steward.Log} { // they ask every five seconds
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
			return strings.Contains(log(), "a scheduler applies ResourceSlicePatches itself"), nil
		})
		if err != nil {
			t.Fatalf("the %s does not learn of the scheduler", what)
		}
	}
	s.patch("rack", rack)
	s.applied("rack", "False", "TwoModes", "a scheduler applies ResourceSlicePatches itself (Lease kube-system/dra-steward-scheduler)")
	s.stays("a: model=z")
	shows := func(published string) {
		t.Helper()
		for _, want := range []string{"/model]: z, published " + published + " patch/" + s.named("model"), "dc.example.com/rack]: r1"} {
			if got := s.devices(); !strings.Contains(got, want) {
				t.Errorf("devices says %q, want %q", got, want)
			}
		}
	}
	shows("x")
	s.publish(one(device("a", "x2"))) // what is published meanwhile is stored as it is
	s.shows("a: model=x2")
	s.stays("a: model=x2")
	shows("x2")
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(1)) // it ends, although the clock of its holder is ahead
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(time.Hour)))
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.shows("a: dc.example.com/rack=r1 model=z")
	shows("x2")
	s.applied("rack", "True", "Patched", "1 of 1 matching devices")
}

// TestUninstall: the step before helm uninstall switches to restore and waits until no slice
// holds a value of a patch and no driver brings one back.
func TestUninstall(t *testing.T) {
	s := newSite(t, "materialize", quick)
	s.patch("model", `{attributes: {`+s.driver+`/model: {string: z}}}`)
	s.publish(one(device("a", "x")))
	s.shows("a: model=z")
	s.quiet()
	deployments := s.c.AppsV1().Deployments(controller.Namespace)
	for name, component := range map[string]string{"dra-steward": "webhook", "dra-steward-controller": "controller"} { // no kubelet runs their pods
		labels := map[string]string{"app.kubernetes.io/name": "dra-steward", "app.kubernetes.io/instance": "dra-steward", "app.kubernetes.io/component": component}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a", Args: []string{"x", "--patches=materialize"}}}}}}}
		if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = deployments.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	}
	ended := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		code := cli.Run(t.Context(), []string{"uninstall", "--yes", "--kubeconfig", cluster.Kubeconfig(), "--namespace", controller.Namespace}, cmdutil.Streams{Out: &out, Err: &out})
		ended <- fmt.Sprintf("%d %s", code, &out)
	}()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, name := range []string{"dra-steward", "dra-steward-controller"} {
			d, err := deployments.Get(ctx, name, metav1.GetOptions{})
			if err != nil || !slices.Equal(d.Spec.Template.Spec.Containers[0].Args, []string{"x", "--patches=restore"}) {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("the Deployments are not switched: %v", err)
	}
	shared.use(t, "restore", quick) // as the Deployments do
	s.shows("a: model=x")
	s.quiet()
	if err := shared.stopController(); err != nil {
		t.Error(err)
	}
	select {
	case got := <-ended:
		if !strings.HasPrefix(got, "0 ") || !strings.Contains(got, "1 patched value to remove from ResourceSlices") {
			t.Errorf("uninstall: %s", got)
		}
	case <-time.After(4 * time.Minute):
		t.Fatal("uninstall does not end")
	}
	shared.shutWebhook(t)
	s.stays("a: model=x")
}

// TestLimits: a patch that a device has no room for, or whose value the API server refuses,
// keeps no driver from publishing, and says so.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	s.patch("rack", rack)
	s.patch("memory", `{capacity: {`+s.driver+`/memory: {value: 4Gi}}}`)
	crowded := device("a", "x")
	for i := range 30 {
		crowded.Attributes[resourceapi.QualifiedName(fmt.Sprintf("n%d", i))] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i))}
	}
	crowded.AllowMultipleAllocations = ptr.To(true)
	crowded.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi"),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("8Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse("8Gi"))}}}}
	s.publish(one(crowded))
	s.shows("a: model=x memory=80Gi")
	s.stays("a: model=x memory=80Gi")
	s.condition("rack", v1alpha1.PatchConflicting, "True", "LimitReached", "1 devices have no room for attributes[dc.example.com/rack]")
	s.condition("memory", v1alpha1.PatchConflicting, "True", "LimitReached", "values cannot be written into slices, such as capacity["+s.driver+"/memory] in device a: BelowPolicy")
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, err := range s.errs {
		t.Errorf("the driver could not publish: %v", err)
	}
}

// TestRefused: what the driver said of a slice, which cannot be compressed, does not fit into
// the annotation: the slice is published without patches, and they say so.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	random := rand.New(rand.NewPCG(1, 2))
	var devices []resourceapi.Device
	var changes, want []string
	for i := range resourceapi.ResourceSliceMaxDevices {
		d := device(fmt.Sprintf("d%03d", i), "x")
		line := d.Name + ": model=x" // "model" is before "n"
		for j := range 30 {
			name := fmt.Sprintf("n%02d", j)
			var value [64]byte
			for at := range value {
				value[at] = '!' + byte(random.IntN('~'-'!'+1))
			}
			text := string(value[:])
			d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: &text}
			if i == 0 {
				changes = append(changes, s.driver+"/"+name+": {string: z}")
			}
			line += fmt.Sprintf(" %s=%s", name, text)
		}
		devices, want = append(devices, d), append(want, line)
	}
	s.patch("all", "{attributes: {"+strings.Join(changes, ", ")+"}}")
	s.publish(one(devices...))
	s.shows(want...)
	s.applied("all", "False", "Refused", "1 ResourceSlices cannot have it: the annotations of ResourceSlice")
	s.stays(want...)
	s.unpatch("all")
	s.patch("rack", rack) // what fits is written all the same
	s.applied("rack", "True", "Patched", "128 of 128 matching devices")
}

// TestPool: both slices of a pool are stored at most twice, by us and by the driver; taints and the time
// when they were added stay.
func TestPool(t *testing.T) {
	t.Parallel()
	s := newSite(t, "materialize")
	a := device("a", "x")
	a.Taints = []resourceapi.DeviceTaint{{Key: "t", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	s.publish([][]resourceapi.Device{{a}, {device("b", "y")}})
	s.shows("a: model=x", "b: model=y")
	s.quiet()
	added := func() (at metav1.Time) {
		for _, slice := range s.slices() {
			for _, d := range slice.Spec.Devices {
				for _, taint := range d.Taints {
					at = *taint.TimeAdded
				}
			}
		}
		return at
	}
	before, stored, written := added(), s.stored(), len(s.written())
	s.patch("rack", rack)
	s.shows("a: dc.example.com/rack=r1 model=x", "b: dc.example.com/rack=r1 model=y")
	s.quiet()
	if n := stored(); n < 2 || n > 4 {
		t.Errorf("stored %d times, want 2 to 4: updates by %q", n, s.written()[written:])
	}
	if after := added(); before.IsZero() || !after.Equal(&before) {
		t.Errorf("the time of the taint was %s and is %s", before, after)
	}
}
