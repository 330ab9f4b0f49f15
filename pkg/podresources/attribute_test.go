package podresources_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// recorded is what the real kubelet 1.37.0 answered about seven pods, with the objects
// of its API server and its checkpoint; test/node records it, and compares what we make
// of it with the environments of the containers.
func recorded(t testing.TB) podresources.Input {
	t.Helper()
	content, err := os.ReadFile("testdata/kubelet-1.37.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Listing    *podresources.Listing
		Pods       []*corev1.Pod
		Claims     []*resourceapi.ResourceClaim
		Checkpoint string
	}
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	prepared, err := checkpoint.DRA([]byte(file.Checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	return podresources.Input{Listing: file.Listing, Pods: file.Pods, Claims: file.Claims, Checkpoint: prepared}
}

// TestRecorded replays the answers of the real kubelet, with all sources and without
// some: testdata/kubelet-1.37.0.<sources>.json is the result.
func TestRecorded(t *testing.T) {
	for name, drop := range map[string]func(*podresources.Input){
		"all":           func(*podresources.Input) {},
		"no-checkpoint": func(in *podresources.Input) { in.Checkpoint = nil },
		"no-claims":     func(in *podresources.Input) { in.Claims = nil },
		"listing-only":  func(in *podresources.Input) { in.Pods, in.Claims, in.Checkpoint = nil, nil, nil },
	} {
		in := recorded(t)
		drop(&in)
		got, err := json.MarshalIndent(podresources.Attribute(in), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := "testdata/kubelet-1.37.0." + name + ".json"
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// find returns the holdings of a pod's container.
func find(holdings []podresources.Holding, pod, container string) (found []podresources.Holding) {
	for _, h := range holdings {
		if h.Pod == pod && h.Container == container {
			found = append(found, h)
		}
	}
	return found
}

func pod(in podresources.Input, name string) *corev1.Pod {
	return in.Pods[slices.IndexFunc(in.Pods, func(p *corev1.Pod) bool { return p.Name == name })]
}

func claim(in podresources.Input, name string) *resourceapi.ResourceClaim {
	return in.Claims[slices.IndexFunc(in.Claims, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })]
}

// Rule 1: without a checkpoint, ids are the difference of accumulated lists, inferred
// unless the health in the pod's status confirms them.
func TestConfirmedByStatus(t *testing.T) {
	in := recorded(t)
	in.Checkpoint = nil
	for _, container := range []string{"only-a", "only-b"} {
		for _, h := range find(podresources.Attribute(in), "requests", container) {
			if h.Exactness != podresources.Exact || len(h.CDIIDs) != 1 {
				t.Errorf("the health confirms it: %+v", h)
			}
		}
	}
	requests := pod(in, "requests")
	for i := range requests.Status.ContainerStatuses {
		requests.Status.ContainerStatuses[i].AllocatedResourcesStatus = nil
	}
	for _, h := range find(podresources.Attribute(in), "requests", "only-b") {
		if h.Exactness != podresources.CDIInferred {
			t.Errorf("nothing confirms it: %+v", h)
		}
	}
}

// A kubelet that does not accumulate is believed.
func TestRepairedKubelet(t *testing.T) {
	in := recorded(t)
	in.Checkpoint = nil
	for _, p := range in.Listing.Pods {
		for _, c := range p.Containers {
			for _, r := range c.DynamicResources {
				for _, d := range r.ClaimResources {
					d.CdiDevices = d.CdiDevices[len(d.CdiDevices)-1:]
				}
			}
		}
	}
	for _, h := range podresources.Attribute(in) {
		if h.Container != "" && (h.Exactness != podresources.Exact || len(h.CDIIDs) != 1) {
			t.Errorf("%+v", h)
		}
	}
}

// Two devices that share an id: the difference of lists keeps both.
func TestSharedID(t *testing.T) {
	ids := func(names ...string) (all []*v1.CDIDevice) {
		for _, name := range names {
			all = append(all, &v1.CDIDevice{Name: name})
		}
		return all
	}
	in := podresources.Input{Listing: &podresources.Listing{Pods: []*v1.PodResources{{
		Name: "p", Namespace: "n", Containers: []*v1.ContainerResources{{Name: "c", DynamicResources: []*v1.DynamicResource{{
			ClaimName: "x", ClaimNamespace: "n", ClaimResources: []*v1.ClaimResource{
				{DriverName: "d", PoolName: "p", DeviceName: "0", CdiDevices: ids("v/c=all", "v/c=0")},
				{DriverName: "d", PoolName: "p", DeviceName: "1", CdiDevices: ids("v/c=all", "v/c=0", "v/c=all", "v/c=1")},
			},
		}}}},
	}}}}
	holdings := podresources.Attribute(in)
	if len(holdings) != 2 || !slices.Equal(holdings[1].CDIIDs, []string{"v/c=all", "v/c=1"}) {
		t.Errorf("%+v", holdings)
	}
}

// Rule 4: a pod without the names of its generated claims, as from the kubelet's Pods API.
func TestGeneratedNames(t *testing.T) {
	in := recorded(t)
	want := podresources.Attribute(in)
	pod(in, "alternatives").Status.ResourceClaimStatuses = nil
	if diff := cmp.Diff(want, podresources.Attribute(in)); diff != "" {
		t.Error(diff)
	}
}

// Another claim took the name of the one that is prepared: the node holds the old one.
// TestReservedForOthers: an allocated claim that is reserved for other pods is not held by a pod
// that refers to it, and waits, or ran before.
func TestReservedForOthers(t *testing.T) {
	in := recorded(t)
	in.Listing, in.Checkpoint = nil, nil
	if len(find(podresources.Attribute(in), "requests", "only-a")) == 0 {
		t.Fatal("the claim of the pod is not held")
	}
	claim(in, "two-requests").Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "requests", UID: "another"}}
	if held := find(podresources.Attribute(in), "requests", "only-a"); len(held) > 0 {
		t.Errorf("the claim is reserved for another pod: %+v", held)
	}
}

func TestReusedName(t *testing.T) {
	in := recorded(t)
	old := claim(in, "two-requests").UID
	claim(in, "two-requests").UID = "another"
	for _, h := range find(podresources.Attribute(in), "requests", "only-a") {
		if h.ClaimUID != old || h.Source != podresources.FromCheckpoint {
			t.Errorf("want claim %s: %+v", old, h)
		}
	}
}

// A pod deleted by force is gone from the API server and the kubelet's list, while its
// claim is still prepared.
func TestForgotten(t *testing.T) {
	in := recorded(t)
	gone := pod(in, "requests")
	in.Pods = slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return p == gone })
	in.Listing.Pods = slices.DeleteFunc(in.Listing.Pods, func(p *v1.PodResources) bool { return p.Name == "requests" })
	var forgotten []podresources.Holding
	for _, h := range podresources.Attribute(in) {
		if h.PodUID == gone.UID {
			forgotten = append(forgotten, h)
		}
	}
	if len(forgotten) != 3 || forgotten[0].Pod != "" || forgotten[0].Claim != "two-requests" {
		t.Errorf("%+v", forgotten)
	}
}

// The kubelet notes a claim before it asks the driver; a driver may be skipped.
func TestNotPrepared(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*checkpoint.Claim)
		prepared  podresources.Prepared
		exactness podresources.Exactness
	}{
		"no answer yet": {func(c *checkpoint.Claim) { c.Devices = nil }, podresources.PreparedNo, podresources.CDIUnknown},
		"not noted":     {func(c *checkpoint.Claim) { c.PodUIDs = nil }, podresources.PreparedNo, podresources.CDIUnknown},
		"skipped": {func(c *checkpoint.Claim) {
			c.Devices, c.SkipsPrepare = nil, []string{"gpu.example.com"}
		}, podresources.PreparedYes, podresources.Exact},
	} {
		in := recorded(t)
		in.Listing = nil
		i := slices.IndexFunc(in.Checkpoint, func(c checkpoint.Claim) bool { return c.Name == "two-requests" })
		test.change(&in.Checkpoint[i])
		for _, h := range find(podresources.Attribute(in), "requests", "only-b") {
			if h.Prepared != test.prepared || h.Exactness != test.exactness || h.CDIIDs != nil {
				t.Errorf("%s: %+v", name, h)
			}
		}
	}
}

// A driver that has nothing to do on the node is not asked to prepare a claim, and the
// allocation says so: nothing is missing, whatever the checkpoint has.
func TestSkipsPrepare(t *testing.T) {
	all, prepare := resourceapi.SkipNodeOperationAll, resourceapi.SkipNodeOperationNodePrepareResources
	for name, test := range map[string]struct {
		skips    []resourceapi.SkipNodeOperation
		onlyOne  bool
		prepared podresources.Prepared
	}{
		"nothing":                           {nil, false, podresources.PreparedNo},
		"everything":                        {[]resourceapi.SkipNodeOperation{all}, false, podresources.PreparedYes},
		"to prepare":                        {[]resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodeUnprepareResources, prepare}, false, podresources.PreparedYes},
		"to unprepare":                      {[]resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodeUnprepareResources}, false, podresources.PreparedNo},
		"everything for one of its devices": {[]resourceapi.SkipNodeOperation{all}, true, podresources.PreparedNo},
	} {
		for _, noted := range []bool{true, false} {
			in := recorded(t)
			in.Listing = nil
			i := slices.IndexFunc(in.Checkpoint, func(c checkpoint.Claim) bool { return c.Name == "two-requests" })
			if in.Checkpoint[i].Devices = nil; !noted {
				in.Checkpoint[i].PodUIDs = nil
			}
			i = slices.IndexFunc(in.Claims, func(c *resourceapi.ResourceClaim) bool { return c.Name == "two-requests" })
			in.Claims[i] = in.Claims[i].DeepCopy()
			results := in.Claims[i].Status.Allocation.Devices.Results
			for j := range results {
				results[j].SkipNodeOperations = test.skips
			}
			if test.onlyOne {
				results[0].SkipNodeOperations = nil
			}
			found := find(podresources.Attribute(in), "requests", "only-b")
			if len(found) == 0 {
				t.Fatalf("%s: no holding", name)
			}
			for _, h := range found {
				if h.Prepared != test.prepared {
					t.Errorf("skips %s, noted %t: prepared %s, want %s", name, noted, h.Prepared, test.prepared)
				}
			}
		}
	}
}

// initContainer adds an init container to a pod that uses requests of claim c.
func initContainer(p *corev1.Pod, state corev1.ContainerState, requests ...string) {
	c := corev1.Container{Name: "init"}
	for _, request := range requests {
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: "c", Request: request})
	}
	p.Spec.InitContainers = []corev1.Container{c}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: state}}
}

var (
	running  = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	finished = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
)

// TestInitContainers: a device stays allocated and prepared when the only container that
// used its request has finished. Then the pod as a whole holds it, whether or not another
// request of the claim is in use.
func TestInitContainers(t *testing.T) {
	for name, test := range map[string]struct {
		state               corev1.ContainerState
		containers          []string // of the pod, that stay
		init, pod, onlyB    int      // devices of each
		wantState, onlyBHas string
	}{
		"not started":             {corev1.ContainerState{}, []string{"only-b"}, 2, 0, 1, "", "running"},
		"waiting":                 {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, []string{"only-b"}, 2, 0, 1, "waiting", "running"},
		"running":                 {running, []string{"only-b"}, 2, 0, 1, "running", "running"},
		"finished":                {finished, []string{"only-b"}, 0, 2, 1, "", "running"},
		"finished, with a second": {finished, []string{"only-a", "only-b"}, 0, 0, 1, "", "running"},
		"failed":                  {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}, []string{"only-b"}, 2, 0, 1, "terminated", "running"},
	} {
		in := recorded(t)
		p := pod(in, "requests")
		p.Spec.Containers = slices.DeleteFunc(p.Spec.Containers, func(c corev1.Container) bool { return !slices.Contains(test.containers, c.Name) })
		initContainer(p, test.state, "a")
		all := podresources.Attribute(in)
		ofInit, ofPod, ofB := find(all, "requests", "init"), find(all, "requests", ""), find(all, "requests", "only-b")
		if len(ofInit) != test.init || len(ofPod) != test.pod || len(ofB) != test.onlyB {
			t.Errorf("%s: %d devices of the init container, %d of the pod, %d of only-b; want %d, %d and %d",
				name, len(ofInit), len(ofPod), len(ofB), test.init, test.pod, test.onlyB)
		}
		for _, h := range ofInit {
			if h.State != test.wantState {
				t.Errorf("%s: state %q, want %q", name, h.State, test.wantState)
			}
		}
		for _, h := range ofPod {
			if h.Request != "a" || h.State != "" || h.Exactness != podresources.Exact || h.Prepared != podresources.PreparedYes || len(h.CDIIDs) != 1 {
				t.Errorf("%s: want request a, exact and prepared: %+v", name, h)
			}
		}
		for _, h := range ofB {
			if h.State != test.onlyBHas {
				t.Errorf("%s: only-b is %q", name, h.State)
			}
		}
	}
}

// TestFinishedExtendedResource: the same for the claim of extended resources.
func TestFinishedExtendedResource(t *testing.T) {
	in := recorded(t)
	p := pod(in, "extended")
	p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers[:1], p.Spec.Containers[1:]
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: finished}}
	all := podresources.Attribute(in)
	held := find(all, "extended", "")
	if len(held) != 1 || held[0].Resource != "example.com/gpu" || len(find(all, "extended", "second")) != 1 || find(all, "extended", "first") != nil {
		t.Errorf("want one device of the pod with its extended resource, and one of second: %+v", held)
	}
}

// TestTwoNames: a pod can use one claim under two names; no device is held twice.
func TestTwoNames(t *testing.T) {
	in := recorded(t)
	p := pod(in, "requests")
	again := p.Spec.ResourceClaims[0]
	again.Name = "again"
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, again)
	if held := find(podresources.Attribute(in), "requests", ""); held != nil {
		t.Errorf("containers hold all of it: %+v", held)
	}
}

// TestFinishedContainer: the state of a holding distinguishes a container that has finished
// from one that runs. Its devices stay prepared for the pod.
func TestFinishedContainer(t *testing.T) {
	in := recorded(t)
	p := pod(in, "requests")
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == "only-b" {
			p.Status.ContainerStatuses[i].State = finished
		}
	}
	held := find(podresources.Attribute(in), "requests", "only-b")
	if len(held) != 1 || held[0].State != "terminated" {
		t.Errorf("%+v", held)
	}
}

// Pods at their end hold nothing.
func TestDone(t *testing.T) {
	in := recorded(t)
	p := pod(in, "requests")
	initContainer(p, finished, "a")
	p.Status.Phase = corev1.PodSucceeded
	for _, h := range podresources.Attribute(in) {
		if h.Pod == "requests" {
			t.Errorf("the pod is done: %+v", h)
		}
	}
}

// FuzzAttribute: whatever the sources say, no panic; and the result does not depend on
// the order of what was read.
func FuzzAttribute(f *testing.F) {
	content, err := os.ReadFile("testdata/kubelet-1.37.0.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content, "uid")
	f.Add([]byte(`{"Pods":[{"spec":{"resourceClaims":[{"name":"x"}],"containers":[{"resources":{"claims":[{"name":"x"}]}}]}}]}`), "")
	f.Fuzz(func(t *testing.T, content []byte, uid string) {
		var in podresources.Input
		if json.Unmarshal(content, &in) != nil {
			return
		}
		in.Pods = slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return p == nil })
		in.Claims = slices.DeleteFunc(in.Claims, func(c *resourceapi.ResourceClaim) bool { return c == nil })
		in.Checkpoint = append(in.Checkpoint, checkpoint.Claim{Name: "x", PodUIDs: []types.UID{types.UID(uid)}, Devices: []checkpoint.Device{{}}})
		podresources.Attribute(in)
	})
}
