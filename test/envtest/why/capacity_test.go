package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

const (
	// worlds is how many are tried; the long test tries ten times that.
	worlds = 10
	// seedVariable is the seed of the first world, and with worldsVariable of how many.
	seedVariable   = "DRA_STEWARD_SEED"
	worldsVariable = "DRA_STEWARD_WORLDS"
)

// TestPredictions: the number of pods that kube-scheduler places is one that fit and capacity
// predict, and the very one where they call it exact.
func TestPredictions(t *testing.T) {
	kubeconfig, err := cluster.UserKubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	first, count := number(t, seedVariable, 0), uint64(worlds)
	switch {
	case os.Getenv("DRA_STEWARD_LONG") != "":
		count *= 10
	case os.Getenv(seedVariable) != "":
		count = 1
	}
	count = number(t, worldsVariable, count)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := &trial{T: t, world: newWorld(seed, cluster.Minor() >= "1.36"), client: client, kubeconfig: kubeconfig}
			w.compare()
		})
	}
}

// number is the value of a variable.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// A trial is one world in the cluster.
type trial struct {
	*testing.T
	*world
	client     kubernetes.Interface
	kubeconfig string
	pods       int
}

// compare predicts, and lets the scheduler place pods.
func (r *trial) compare() {
	r.create()
	// A node has a bounded number of pods, and other tests have devices of their own.
	r.Cleanup(func() {
		ctx := context.WithoutCancel(r.Context())
		if err := r.client.CoreV1().Pods(r.name()).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}); err != nil {
			r.Error(err)
		}
		for _, s := range r.slices {
			if err := r.client.ResourceV1().ResourceSlices().Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
				r.Error(err)
			}
		}
	})
	for range r.held {
		if !r.lands(r.pod(resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "held", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: r.name()}}}}}), time.Second) {
			break
		}
	}
	room, upper := r.predict()
	what := fmt.Sprintf("%s on %d nodes: fit %d to %d (exact %t, proven %t; then %v), capacity %+v", r.kind, len(r.nodes), room.Least, room.Most, room.Exact, room.Proven, room.Limit, upper)
	placed := 0
	for placed <= room.Most {
		// A pod that is to fit is waited for: the scheduler learns of devices after us.
		patience := time.Minute
		if placed >= room.Least {
			patience = time.Second
		}
		if !r.lands(r.pod(r.spec), patience) {
			break
		}
		placed++
	}
	r.Logf("%d placed; %s", placed, what)
	switch {
	case placed < room.Least || placed > room.Most:
		r.Errorf("the scheduler places %d pods; %s", placed, what)
	case r.interchangeable && !room.Exact:
		r.Errorf("the devices are interchangeable, and the number is not exact: %s", what)
	}
	if upper != nil && (placed > upper.Claims || upper.Exact && placed != upper.Claims) {
		r.Errorf("the scheduler places %d pods; %s", placed, what)
	}
}

// create writes what the world has.
func (r *trial) create() {
	ctx := r.Context()
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
	}
	_, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.name()}}, metav1.CreateOptions{})
	must(err)
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: r.name()}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", r.driver())}}}
	_, err = r.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	must(err)
	for _, s := range r.slices {
		_, err := r.client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
		must(err)
	}
}

// predict runs the commands. upper is what capacity says of claims of that size, nil if these
// are others than it counts.
func (r *trial) predict() (room capacity.Room, upper *capacity.Fit) {
	file := filepath.Join(r.TempDir(), "template.yaml")
	text, err := yaml.Marshal(&resourceapi.ResourceClaimTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: "subject", Namespace: r.name()}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: r.spec}})
	if err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.Fatal(err)
	}
	r.command(&room, "fit", "-f", file)
	var report capacity.Inventory
	r.command(&report, "capacity", "--class", r.name())
	request := r.spec.Devices.Requests[0].Exactly
	if request == nil || len(request.Selectors)+len(request.Tolerations)+len(r.spec.Devices.Constraints) > 0 || request.Capacity != nil {
		return room, nil
	}
	for _, f := range report.Total.Fits {
		if int64(f.Devices) == request.Count {
			upper = &f
		}
	}
	return room, upper
}

// command runs a command and decodes its answer.
func (r *trial) command(into any, args ...string) {
	r.Helper()
	var out, errs bytes.Buffer
	args = append(args, "-o", "json", "--kubeconfig", r.kubeconfig, "-n", r.name())
	if code := cli.Run(r.Context(), args, cmdutil.Streams{Out: &out, Err: &errs}); code != cmdutil.ExitClean {
		r.Fatalf("%v: exit code %d: %s", args, code, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		r.Fatalf("%v: %v\n%s", args, err, out.String())
	}
}

// pod creates a claim and a pod that uses it, and returns their name.
func (r *trial) pod(spec resourceapi.ResourceClaimSpec) string {
	r.Helper()
	name := fmt.Sprintf("pod-%d", r.pods)
	r.pods++
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if _, err := r.client.ResourceV1().ResourceClaims(r.name()).Create(r.Context(), claim, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example.com/train:1"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &name}}
	if _, err := r.client.CoreV1().Pods(r.name()).Create(r.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	return name
}

// lands waits until the scheduler has placed a pod, or has had a pod without a place for a
// while: it can have said so before it knew all devices.
func (r *trial) lands(name string, patience time.Duration) (landed bool) {
	r.Helper()
	said := time.Time{}
	err := wait.PollUntilContextTimeout(r.Context(), 20*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		pod, err := r.client.CoreV1().Pods(r.name()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if landed = pod.Spec.NodeName != ""; landed {
			return true, nil
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && said.IsZero() {
				said = time.Now()
			}
		}
		return !said.IsZero() && time.Since(said) > patience, nil
	})
	if err != nil {
		r.Fatalf("the scheduler says nothing of pod %s: %v", name, err)
	}
	return landed
}
