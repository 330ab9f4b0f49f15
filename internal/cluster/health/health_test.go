package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const driver = "gpu.example.com"

const (
	healthy   = corev1.ResourceHealthStatusHealthy
	unhealthy = corev1.ResourceHealthStatusUnhealthy
	unknown   = corev1.ResourceHealthStatusUnknown
)

func idOf(device string) usage.DeviceID {
	return usage.DeviceID{Driver: driver, Pool: "node-1/a", Device: device}
}

// claim is allocated to devices, each REQUEST=DEVICE, and reserved for a pod.
func claim(name, pod string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, d := range devices {
		request, device, _ := strings.Cut(d, "=")
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: "node-1/a", Device: device})
	}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID(pod)}}
	return c
}

// pod refers to claims by the names that these have, with "ref-" in front.
func pod(name string, claims []string, statuses ...corev1.ResourceStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	for i := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "ref-" + claims[i], ResourceClaimName: &claims[i]})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResourcesStatus: statuses}}
	return p
}

func status(name string, resources ...corev1.ResourceHealth) corev1.ResourceStatus {
	return corev1.ResourceStatus{Name: corev1.ResourceName(name), Resources: resources}
}

func is(id string, h corev1.ResourceHealthStatus) corev1.ResourceHealth {
	return corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: h}
}

func found(pods []*corev1.Pod, claims ...*resourceapi.ResourceClaim) *health.Records {
	said := &health.Records{}
	for _, c := range claims {
		said.AddClaim(c)
	}
	for _, p := range pods {
		said.AddPod(p, func(namespace, name string) *resourceapi.ResourceClaim {
			at := slices.IndexFunc(claims, func(c *resourceapi.ResourceClaim) bool { return c.Namespace == namespace && c.Name == name })
			if at < 0 {
				return nil
			}
			return claims[at]
		})
	}
	return said
}

// TestWhichDevice: a resource is a device of the claim and request in its name, by the ID that the
// API describes or by the CDI name that kubelets write, and none that the pod does not have.
func TestWhichDevice(t *testing.T) {
	const a = driver + "/node-1/a/"
	two := claim("train", "p", "gpu=gpu-0", "gpu=gpu-1", "nic/fast=0")
	for name, tt := range map[string]struct {
		status  corev1.ResourceStatus
		want    string // device and health
		unclear int
	}{
		"the ID of the API":                {status("claim:ref-train/gpu", is(a+"gpu-1", unhealthy)), "gpu-1 Unhealthy", 0},
		"without a request":                {status("claim:ref-train", is(a+"gpu-1", unhealthy)), "gpu-1 Unhealthy", 0},
		"healthy":                          {status("claim:ref-train", is(a+"gpu-1", healthy)), "gpu-1 Healthy", 0},
		"a CDI name":                       {status("claim:ref-train/gpu", is("k8s.gpu.example.com/gpu=0a1b-gpu-1", unhealthy)), "gpu-1 Unhealthy", 0},
		"the CDI name of a driver":         {status("claim:ref-train", is("example.com/gpu=gpu-0", unhealthy)), "gpu-0 Unhealthy", 0},
		"a device at the end of another":   {status("claim:ref-train", is("example.com/gpu=u-gpu-0", unhealthy)), "gpu-0 Unhealthy", 0},
		"the only device of a request":     {status("claim:ref-train/nic", is("example.com/nic=opaque", unhealthy)), "0 Unhealthy", 0},
		"a subrequest":                     {status("claim:ref-train/nic/slow", is("example.com/nic=opaque", unhealthy)), "0 Unhealthy", 0},
		"all are alike":                    {status("claim:ref-train/gpu", is("example.com/gpu=x", unhealthy), is("example.com/gpu=y", unhealthy)), "gpu-0 Unhealthy, gpu-1 Unhealthy", 0},
		"one of two":                       {status("claim:ref-train/gpu", is("example.com/gpu=x", unhealthy), is("example.com/gpu=y", healthy)), "", 1},
		"one of two that share a CDI name": {status("claim:ref-train/gpu", is("example.com/gpu=x", unhealthy)), "", 1},
		"one of two is not unhealthy":      {status("claim:ref-train/gpu", is("example.com/gpu=x", healthy)), "", 0},
		"another request":                  {status("claim:ref-train/gpu", is(a+"0", unhealthy)), "", 1},
		"a device that it does not have":   {status("claim:ref-train", is(a+"gpu-9", unhealthy)), "", 1},
		"another driver":                   {status("claim:ref-train", is("b.example.com/node-1/a/gpu-0", unhealthy)), "", 1},
		"no such reference":                {status("claim:train", is(a+"gpu-1", unhealthy)), "", 0},
		"no such request":                  {status("claim:ref-train/cpu", is(a+"gpu-1", unhealthy)), "", 0},
		"a device plugin":                  {status("nvidia.com/gpu", is("GPU-1", unhealthy)), "", 0},
		"nothing":                          {status("claim:ref-train", is("", "")), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			said := found([]*corev1.Pod{pod("p", []string{"train"}, tt.status)}, two)
			var got []string
			for _, device := range []string{"0", "gpu-0", "gpu-1", "gpu-9"} {
				if record, known := said.Of(idOf(device)); known {
					got = append(got, device+" "+string(record.Health))
				}
			}
			if got := strings.Join(got, ", "); got != tt.want || len(said.Unclear()) != tt.unclear {
				t.Errorf("%q and %d unclear, want %q and %d", got, len(said.Unclear()), tt.want, tt.unclear)
			}
		})
	}
}

// TestWhoMaySpeak: only a pod for which a claim is reserved speaks of its devices.
func TestWhoMaySpeak(t *testing.T) {
	broken := status("claim:ref-train", is(driver+"/node-1/a/gpu-0", unhealthy))
	other, pending := claim("train", "another", "gpu=gpu-0"), claim("train", "p")
	pending.Status.Allocation = nil
	group := claim("train", "g", "gpu=gpu-0")
	group.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "g"}}
	grouped := pod("p", []string{"train"}, broken)
	grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
	extended := pod("p", nil, status("claim:special/request-0", is(driver+"/node-1/a/gpu-0", unhealthy)))
	extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "special"}
	sidecar := pod("p", []string{"train"})
	sidecar.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", AllocatedResourcesStatus: []corev1.ResourceStatus{broken}}}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		claim *resourceapi.ResourceClaim
		want  bool
	}{
		"its own claim":            {pod("p", []string{"train"}, broken), claim("train", "p", "gpu=gpu-0"), true},
		"a sidecar":                {sidecar, claim("train", "p", "gpu=gpu-0"), true},
		"the claim of its group":   {grouped, group, true},
		"an extended resource":     {extended, claim("special", "p", "request-0=gpu-0"), true},
		"the claim of another pod": {pod("p", []string{"train"}, broken), other, false},
		"not allocated":            {pod("p", []string{"train"}, broken), pending, false},
		"no claim":                 {pod("p", []string{"train"}, broken), claim("other", "p", "gpu=gpu-0"), false},
	} {
		said := found([]*corev1.Pod{tt.pod}, tt.claim)
		if got := slices.Equal(said.Unhealthy(), []usage.DeviceID{idOf("gpu-0")}); got != tt.want {
			t.Errorf("%s: %v, want that it counts: %t", name, said.Unhealthy(), tt.want)
		}
	}
}

// TestWorst: of several that speak of a device the worst counts, in any order.
func TestWorst(t *testing.T) {
	shared := claim("train", "p", "gpu=gpu-0")
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "q", UID: "q"}, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "r", UID: "r"})
	says := func(name string, h corev1.ResourceHealthStatus) *corev1.Pod {
		return pod(name, []string{"train"}, status("claim:ref-train", is(driver+"/node-1/a/gpu-0", h)))
	}
	for _, tt := range []struct {
		pods []*corev1.Pod
		want health.Record
	}{
		{[]*corev1.Pod{says("p", healthy), says("q", healthy)}, health.Record{Health: healthy, From: "pod ml/p"}},
		{[]*corev1.Pod{says("p", healthy), says("q", unknown)}, health.Record{Health: unknown, From: "pod ml/q"}},
		{[]*corev1.Pod{says("p", unhealthy), says("q", unknown), says("r", unhealthy)}, health.Record{Health: unhealthy, From: "pod ml/p"}},
		{[]*corev1.Pod{says("p", healthy), says("q", "Fine")}, health.Record{Health: "Fine", From: "pod ml/q"}},
	} {
		for range 2 {
			if got, _ := found(tt.pods, shared).Of(idOf("gpu-0")); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			slices.Reverse(tt.pods)
		}
	}
	shared.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: driver, Pool: "node-1/a", Device: "gpu-0", Conditions: []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Message: "no link"}, {Type: "Attached", Status: metav1.ConditionFalse}}}}
	if got, _ := found([]*corev1.Pod{says("p", healthy)}, shared).Of(idOf("gpu-0")); got != (health.Record{Health: unhealthy, From: "claim ml/train", Message: "Ready=False: no link"}) {
		t.Errorf("%+v", got)
	}
}

// TestHostile: a status of any size and content is read in bounds, and its text is one line.
func TestHostile(t *testing.T) {
	evil := "a\n\x1b[2J\u202e\tb" + strings.Repeat("é", 10_000)
	var statuses []corev1.ResourceStatus
	for i := range 10_000 {
		statuses = append(statuses, status("claim:ref-train"+strings.Repeat("/", i%3), is(fmt.Sprintf("%d=%s", i, evil), unhealthy), corev1.ResourceHealth{
			ResourceID: driver + "/node-1/a/gpu-0", Health: unhealthy, Message: &evil}))
	}
	many := corev1.ResourceStatus{Name: "claim:ref-train", Resources: make([]corev1.ResourceHealth, 100_000)}
	said := found([]*corev1.Pod{pod("p", []string{"train"}, statuses...), pod("p", []string{"train"}, many)}, claim("train", "p", "gpu=gpu-0", "gpu=gpu-1", "gpu=gpu-2"))
	record, _ := said.Of(idOf("gpu-0"))
	if record.Health != unhealthy || len(said.Unhealthy()) != 1 || len(said.Unclear()) == 0 || len(said.Unclear()) > 100 {
		t.Fatalf("%d unhealthy, %d unclear: %+v", len(said.Unhealthy()), len(said.Unclear()), record)
	}
	for _, record := range append(said.Unclear(), record) {
		if m := record.Message; len(m) > 256 || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\t\x1b\u202e") || m == "" {
			t.Fatalf("%q", m)
		}
	}
}
