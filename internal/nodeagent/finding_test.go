package nodeagent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
	"github.com/dra-steward/dra-steward/pkg/podresources/checkpoint"
)

func holding(pod, claim, device string, change ...func(*podresources.Holding)) podresources.Holding {
	h := podresources.Holding{
		Namespace: "default", Pod: pod, PodUID: "uid-1", Container: "main", Claim: claim, ClaimUID: "uid-1",
		Driver: "gpu.example.com", Pool: "n1", Device: device, Prepared: podresources.PreparedYes, Source: podresources.FromClaim,
	}
	h.PodUID, h.ClaimUID = podUIDOf(pod), podUIDOf(claim)
	for _, f := range change {
		f(&h)
	}
	return h
}

// check resolves all ids but those of vendor.example/gone.
func check(id string) cdi.Result {
	result := cdi.Result{ID: id}
	if strings.HasPrefix(id, "vendor.example/gone") {
		result.Problems = []cdi.Problem{{Reason: "no-spec", Detail: "no specification"}}
	}
	return result
}

func kinds(findings []Finding) (ids []string) {
	for _, f := range findings {
		ids = append(ids, f.Kind+" "+f.Pod)
	}
	return ids
}

func TestJudge(t *testing.T) {
	shared := func(h *podresources.Holding) { h.ShareID = "s" }
	admin := func(h *podresources.Holding) { h.AdminAccess = true }
	gone := func(h *podresources.Holding) { h.Pod = "" }
	ids := func(ids ...string) func(*podresources.Holding) {
		return func(h *podresources.Holding) { h.CDIIDs = ids }
	}
	unprepared := func(h *podresources.Holding) { h.Prepared = podresources.PreparedNo }
	for name, test := range map[string]struct {
		holdings []podresources.Holding
		want     []string
	}{
		"all is well":               {[]podresources.Holding{holding("a", "x", "0", ids("vendor.example/gpu=0")), holding("b", "y", "1")}, nil},
		"two claims":                {[]podresources.Holding{holding("a", "x", "0"), holding("b", "y", "0")}, []string{"held-twice a", "held-twice b"}},
		"one claim of two pods":     {[]podresources.Holding{holding("a", "x", "0"), holding("b", "x", "0")}, nil},
		"shared by capacity":        {[]podresources.Holding{holding("a", "x", "0", shared), holding("b", "y", "0", shared)}, nil},
		"admin beside a user":       {[]podresources.Holding{holding("a", "x", "0", admin), holding("b", "y", "0")}, nil},
		"another pool":              {[]podresources.Holding{holding("a", "x", "0"), holding("b", "y", "0", func(h *podresources.Holding) { h.Pool = "n2" })}, nil},
		"gone":                      {[]podresources.Holding{holding("a", "x", "0", gone)}, []string{"prepared-gone "}},
		"gone, and its device used": {[]podresources.Holding{holding("a", "x", "0", gone), holding("b", "y", "0")}, []string{"held-twice ", "held-twice b", "prepared-gone "}},
		"not prepared":              {[]podresources.Holding{holding("a", "x", "0", unprepared)}, []string{"allocated-not-prepared a"}},
		"an id of two":              {[]podresources.Holding{holding("a", "x", "0", ids("vendor.example/gpu=0", "vendor.example/gone=0"))}, []string{"cdi-unresolvable a"}},
	} {
		if got := kinds(Check(Input{Check: check}, test.holdings)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestHeldTwiceWithAdminAccess: a claim that was held with adminAccess does not hold a device twice, also after it is gone.
func TestHeldTwiceWithAdminAccess(t *testing.T) {
	monitor, user := holding("monitor", "all", "0"), holding("train", "one", "0")
	in := Input{Check: check, WasAdmin: func(h podresources.Holding) bool { return h.ClaimUID == monitor.ClaimUID }}
	if found := Check(in, []podresources.Holding{monitor, user}); len(found) > 0 {
		t.Errorf("got %v", kinds(found))
	}
}

// TestHeldTwiceUnread: while a claim of a pod that exists could not be read, its device may be used with adminAccess.
// A claim that is prepared for a pod that is gone is reported.
func TestHeldTwiceUnread(t *testing.T) {
	unknown := func(h *podresources.Holding) {
		h.Source, h.Exactness = podresources.FromCheckpoint, podresources.AdminUnknown
	}
	gone := func(h *podresources.Holding) { h.Pod = "" }
	for name, test := range map[string]struct {
		unread   bool
		holdings []podresources.Holding
		want     []string
	}{
		"unread":             {true, []podresources.Holding{holding("train", "x", "0"), holding("monitor", "y", "0", unknown)}, nil},
		"both are unread":    {true, []podresources.Holding{holding("train", "x", "0", unknown), holding("monitor", "y", "0", unknown)}, nil},
		"another one":        {true, []podresources.Holding{holding("a", "x", "0"), holding("b", "y", "0")}, []string{"held-twice a", "held-twice b"}},
		"gone":               {true, []podresources.Holding{holding("a", "x", "0", unknown, gone), holding("b", "y", "0")}, []string{"held-twice ", "held-twice b", "prepared-gone "}},
		"the claim was gone": {false, []podresources.Holding{holding("a", "x", "0", unknown), holding("b", "y", "0")}, []string{"held-twice a", "held-twice b"}},
	} {
		if got := kinds(Check(Input{Check: check, Unread: test.unread}, test.holdings)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	nodeView, err := NewNodeView(&rest.Config{Host: "127.0.0.1:1"}, "node-1", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	kubelet := podresources.New(podresources.Options{Socket: filepath.Join(t.TempDir(), "absent")})
	defer kubelet.Close()
	a := NewAgent(Options{Kubelet: kubelet, NodeView: nodeView, CDI: cdi.Options{Dirs: []string{t.TempDir()}}, Log: logr.Discard()})
	for _, unread := range []bool{false, true} {
		if in := a.read(t.Context(), time.Now(), &Observation{Sources: map[string]bool{}}); in.Unread != unread {
			t.Errorf("unread is %v", in.Unread)
		}
		if err := nodeView.pods.GetStore().Add(podOf("monitor", "watch")); err != nil {
			t.Fatal(err)
		}
	}
}

// A static pod has another UID on the node; a pod that is done needs no devices.
func TestJudgePlugins(t *testing.T) {
	pods := []*corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "plain", UID: "1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "static", UID: "2", Annotations: map[string]string{"kubernetes.io/config.hash": "hash"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "done", UID: "3"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
	}
	in := Input{Check: check, Input: podresources.Input{Pods: pods}}
	for _, uid := range []string{"1", "hash", "3", "4"} {
		in.Plugins = append(in.Plugins, checkpoint.PluginAllocation{PodUID: podUIDOf(uid), Container: "c", Resource: "r", CDIIDs: []string{"vendor.example/gone=0"}})
	}
	if got := kinds(Check(in, nil)); !slices.Equal(got, []string{"cdi-unresolvable plain", "cdi-unresolvable static"}) {
		t.Error(got)
	}
}

func TestKinds(t *testing.T) {
	for _, kind := range Kinds() {
		if kind.ID == "" || kind.Doc == "" || kind.Event == "" {
			t.Errorf("%+v needs ID, documentation and event", kind)
		}
	}
}

// A finding is reported once it has lasted, with one event, and again if it comes back.
func TestLasting(t *testing.T) {
	events := record.NewFakeRecorder(10)
	a := NewAgent(Options{Events: events})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: podUIDOf("a")}}
	begin := time.Now()
	found := []Finding{{Kind: AllocatedNotPrepared, Pod: "a", PodUID: podUIDOf("a")}}
	for _, step := range []struct {
		after    time.Duration
		findings []Finding
		reported int
	}{
		{0, found, 0}, {59 * time.Second, found, 0}, {time.Minute, found, 1}, {2 * time.Minute, found, 1},
		{3 * time.Minute, nil, 0}, {4 * time.Minute, found, 0}, {5 * time.Minute, found, 1},
	} {
		lasting := a.lasting(step.findings, begin.Add(step.after))
		a.createEvents([]*corev1.Pod{pod}, lasting)
		if len(lasting) != step.reported {
			t.Errorf("after %s: %v", step.after, lasting)
		}
	}
	if n := len(events.Events); n != 2 {
		t.Errorf("%d events, want one each time", n)
	}
}

// TestSpecificationIsWritten: a driver that writes its specification again, by removing the old one first, is no
// finding; one that stays away is.
func TestSpecificationIsWritten(t *testing.T) {
	a := NewAgent(Options{})
	begin := time.Now()
	found := []Finding{{Kind: CDIUnresolvable, Pod: "a", CDI: "v/c=0", Reason: "no-spec"}}
	for _, step := range []struct {
		after    time.Duration
		findings []Finding
		reported int
	}{{0, found, 0}, {9 * time.Second, found, 0}, {9500 * time.Millisecond, nil, 0}, {10 * time.Second, found, 0}, {20 * time.Second, found, 1}} {
		if lasting := a.lasting(step.findings, begin.Add(step.after)); len(lasting) != step.reported {
			t.Errorf("after %s: %v", step.after, lasting)
		}
	}
}

// TestEventWithoutPod: a finding about a pod that is gone is an event on the node.
func TestEventWithoutPod(t *testing.T) {
	events := record.NewFakeRecorder(10)
	events.IncludeObject = true
	a := NewAgent(Options{Events: events, Node: "node-1"})
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a", UID: podUIDOf("a")}}
	found := []Finding{{Kind: HeldTwice, Pod: "a", PodUID: podUIDOf("a"), Message: "one"}, {Kind: PreparedGone, Pod: "gone", PodUID: podUIDOf("gone"), Message: "two"}}
	for range 2 {
		a.createEvents([]*corev1.Pod{pod}, found)
	}
	close(events.Events)
	var got []string
	for event := range events.Events {
		got = append(got, event)
	}
	if len(got) != 2 || !strings.Contains(got[0], "DeviceHeldTwice one") || !strings.Contains(got[0], "kind=Pod") || !strings.Contains(got[1], "ClaimStillPrepared two") || strings.Contains(got[1], "kind=Pod") {
		t.Errorf("%q", got)
	}
}

// TestMetrics: two shares of a device in one container are one series, and the names
// are as they should be.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry, MetricsOptions{Calls: func() (int64, int64) { return 7, 2 }})
	if err != nil {
		t.Fatal(err)
	}
	h := holding("a", "x", "0")
	m.report.Store(&Observation{
		At: time.Unix(1000, 0), Holdings: []podresources.Holding{h, h}, Sources: map[string]bool{"podresources": false, "api": true}, Stale: true,
		Taints:   []HeldTaint{{Holding: h, Taint: resourceapi.DeviceTaint{Key: "k", Effect: "NoExecute", TimeAdded: &metav1.Time{Time: time.Unix(99, 0)}}}},
		Findings: []Finding{{Kind: CDIUnresolvable, Namespace: "default", Pod: "a", Container: "main", CDI: "v/c=0", Reason: "no-spec", Source: "dra"}},
	})
	want := `
# HELP dra_steward_node_device_taint_added_timestamp_seconds Taints of devices that containers of this node hold, by when the taint was added, and whether the request tolerates it.
# TYPE dra_steward_node_device_taint_added_timestamp_seconds gauge
dra_steward_node_device_taint_added_timestamp_seconds{container="main",device="0",driver="gpu.example.com",effect="NoExecute",key="k",namespace="default",pod="a",pool="n1",tolerated="false"} 99
# HELP dra_steward_node_source_up Whether the last read of a source succeeded: podresources, checkpoint, device-plugins, runtime, cdi, api. Disabled sources are omitted.
# TYPE dra_steward_node_source_up gauge
dra_steward_node_source_up{source="api"} 1
dra_steward_node_source_up{source="podresources"} 0
# HELP dra_steward_node_podresources_rejected_total Calls that the kubelet rejected by the rate limit that all its clients share.
# TYPE dra_steward_node_podresources_rejected_total counter
dra_steward_node_podresources_rejected_total 2
# HELP dra_steward_node_stale 1 while the kubelet has just started and does not list its pods yet; the other metrics are older.
# TYPE dra_steward_node_stale gauge
dra_steward_node_stale 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_node_device_taint_added_timestamp_seconds",
		"dra_steward_node_source_up", "dra_steward_node_podresources_rejected_total", "dra_steward_node_stale"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "dra_steward_node_device_holder_info"); err != nil || n != 1 {
		t.Errorf("%d holders, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestFindingsOfTheCheckpoint: what only the checkpoint shows is not said to be 0 while it is off or cannot be
// read. What is found all the same is counted.
func TestFindingsOfTheCheckpoint(t *testing.T) {
	const head = `
# HELP dra_steward_node_findings Findings on this node, by kind. Kinds that only the kubelet's checkpoint shows are left out while it is off or cannot be read.
# TYPE dra_steward_node_findings gauge
`
	const always = `dra_steward_node_findings{kind="cdi-unresolvable"} 0
dra_steward_node_findings{kind="podresources-large"} 0
`
	for name, c := range map[string]struct {
		sources map[string]bool
		found   []Finding
		want    string
	}{
		"off":    {map[string]bool{}, nil, always},
		"unread": {map[string]bool{"checkpoint": false}, nil, always},
		"found":  {map[string]bool{}, []Finding{{Kind: HeldTwice}}, always + "dra_steward_node_findings{kind=\"held-twice\"} 1\n"},
		"read": {map[string]bool{"checkpoint": true}, nil, always + `dra_steward_node_findings{kind="allocated-not-prepared"} 0
dra_steward_node_findings{kind="driver-gone"} 0
dra_steward_node_findings{kind="held-twice"} 0
dra_steward_node_findings{kind="prepared-gone"} 0
`},
	} {
		registry := prometheus.NewPedanticRegistry()
		m, err := NewMetrics(registry, MetricsOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.report.Store(&Observation{At: time.Unix(1000, 0), Sources: c.sources, Findings: c.found})
		if err := testutil.GatherAndCompare(registry, strings.NewReader(head+c.want), "dra_steward_node_findings"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func podUIDOf(name string) types.UID { return types.UID(name) }

// TestDriverGone: a pod whose grace period is over, with a claim of a driver that is not
// registered. Another pod can still end.
func TestDriverGone(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ending := func(name string, at time.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: podUIDOf(name), DeletionTimestamp: &metav1.Time{Time: at}}}
	}
	registered := func(is, known bool) func(string) (bool, bool) {
		return func(string) (bool, bool) { return is, known }
	}
	runs := ending("runs", now)
	runs.DeletionTimestamp = nil
	in := Input{Check: check, Now: now}
	in.Pods = []*corev1.Pod{ending("stuck", now.Add(-time.Minute)), ending("in-time", now.Add(time.Minute)), runs}
	holdings := []podresources.Holding{
		holding("stuck", "x", "0"), holding("stuck", "x", "0", func(h *podresources.Holding) { h.Container = "other" }), holding("in-time", "y", "1"), holding("runs", "z", "2"),
	}
	for name, tt := range map[string]struct {
		registered func(string) (bool, bool)
		want       []string
	}{
		"gone":       {registered(false, true), []string{"driver-gone stuck"}},
		"registered": {registered(true, true), nil},
		"unknown":    {registered(false, false), nil},
		"not read":   {nil, nil},
	} {
		in.Registered = tt.registered
		if got := kinds(Check(in, holdings)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSharedClaim: a claim that is not prepared, of a pod that shares a prepared one.
func TestSharedClaim(t *testing.T) {
	unprepared := func(h *podresources.Holding) { h.Prepared = podresources.PreparedNo }
	findings := Check(Input{Check: check}, []podresources.Holding{holding("first", "shared", "0"), holding("second", "shared", "0"), holding("second", "own", "1", unprepared)})
	if len(findings) != 1 || findings[0].Pod != "second" || !strings.Contains(findings[0].Message, "shares claim shared") || !strings.Contains(findings[0].Message, "kubernetes#135901") {
		t.Errorf("got %+v", findings)
	}
	alone := Check(Input{Check: check}, []podresources.Holding{holding("second", "shared", "0"), holding("second", "own", "1", unprepared)})
	if len(alone) != 1 || strings.Contains(alone[0].Message, "135901") {
		t.Errorf("got %+v", alone)
	}
	plugin := func(h *podresources.Holding) { h.ClaimUID, h.Driver, h.Pool, h.Resource = "", "", "", "rdma/hca" }
	plugins := Check(Input{Check: check}, []podresources.Holding{
		holding("first", "", "hca-0", plugin), holding("second", "", "hca-1", plugin), holding("second", "own", "1", unprepared)})
	if len(plugins) != 1 || strings.Contains(plugins[0].Message, "135901") {
		t.Errorf("devices of a device plugin count as a claim that pods share: %+v", plugins)
	}
}

// TestLargestPod is an attack: a pod of a tenant with many containers, each of which refers to two claims with many
// devices, one of them not prepared, takes no more time for each of its devices than a small one.
func TestLargestPod(t *testing.T) {
	pod := func(containers int) Input {
		prepared, allocated := &resourceapi.AllocationResult{}, &resourceapi.AllocationResult{}
		onNode := checkpoint.Claim{Namespace: "default", Name: "prepared", UID: "prepared", PodUIDs: []types.UID{"large"}}
		for i := range 32 {
			result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: gpuDriver, Pool: "n1", Device: fmt.Sprint("gpu-", i)}
			prepared.Devices.Results = append(prepared.Devices.Results, result)
			onNode.Devices = append(onNode.Devices, checkpoint.Device{Driver: result.Driver, Pool: result.Pool, Device: result.Device})
			result.Driver = "nic.example.com"
			allocated.Devices.Results = append(allocated.Devices.Results, result)
		}
		claimOf := func(name string, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
			return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Status: resourceapi.ResourceClaimStatus{
				Allocation: allocation, ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "large", UID: "large"}}}}
		}
		large := podOf("large", "prepared", "allocated")
		large.Namespace, large.UID, large.Spec.Containers = "default", "large", nil
		for i := range containers {
			container := corev1.Container{Name: fmt.Sprint("c", i)}
			for _, claim := range large.Spec.ResourceClaims {
				container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
			}
			large.Spec.Containers = append(large.Spec.Containers, container)
		}
		return Input{Check: check, Input: podresources.Input{Pods: []*corev1.Pod{large}, Checkpoint: []checkpoint.Claim{onNode},
			Claims: []*resourceapi.ResourceClaim{claimOf("prepared", prepared), claimOf("allocated", allocated)}}}
	}
	perDevice := func(containers int) func() time.Duration {
		in, best := pod(containers), time.Hour
		return func() time.Duration {
			for started := time.Now(); time.Since(started) < 100*time.Millisecond; {
				begun := time.Now()
				holdings := podresources.Attribute(in.Input)
				findings := Check(in, holdings)
				best = min(best, time.Since(begun)/time.Duration(len(holdings)))
				if len(holdings) != 64*containers || len(findings) != containers {
					t.Fatalf("%d devices, %d findings", len(holdings), len(findings))
				}
			}
			return best
		}
	}
	smallPod, largePod := perDevice(4), perDevice(32)
	small, large := smallPod(), largePod()
	for range 50 { // other processes on the same cores make single measurements slow
		if large <= 6*small { // 8 times if the work is quadratic
			return
		}
		small, large = smallPod(), largePod()
	}
	t.Errorf("%s for each device, and %s with 8 times as many", small, large)
}
