package usage

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// claim makes a claim that devices "driver/pool/device" of driver d and pool p are
// allocated to.
func claim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)}}
	if len(devices) > 0 {
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "p", Device: device})
	}
	return c
}

func reserve(c *resourceapi.ResourceClaim, pods ...*corev1.Pod) *resourceapi.ResourceClaim {
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	return c
}

func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("pod-" + name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
	for _, claim := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	return p
}

func owned(c *resourceapi.ResourceClaim, by *corev1.Pod) *resourceapi.ResourceClaim {
	yes := true
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: by.Name, UID: by.UID, Controller: &yes}}
	return c
}

func names(pods []*corev1.Pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all
}

// TestWaysToHold has a pod for each way to hold a device.
func TestWaysToHold(t *testing.T) {
	direct := pod("direct", "shared")
	template := pod("template")
	templateName, claimName := "t", "of-template"
	template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &templateName}}
	template.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claimName}}
	extended := pod("extended")
	extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "of-extended"}
	member := pod("member", "of-group")
	group := "group"
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	outsider := pod("outsider", "of-group")
	replaced := pod("replaced", "shared")
	waiting := pod("waiting", "shared")
	previous := pod("replaced", "shared")
	previous.UID = "another"
	ofGroup := claim("of-group", "dev3")
	ofGroup.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: group, UID: "group-uid"}}

	var index Index
	for _, p := range []*corev1.Pod{direct, template, extended, member, outsider, replaced, waiting} {
		index.SetPod(p)
	}
	for _, c := range []*resourceapi.ResourceClaim{
		reserve(claim("shared", "dev0"), direct, previous), reserve(owned(claim("of-template", "dev1"), template), template),
		reserve(owned(claim("of-extended", "dev2"), extended), extended), ofGroup,
	} {
		index.SetClaim(c)
	}
	for name, want := range map[string][]string{"shared": {"direct"}, "of-template": {"template"}, "of-extended": {"extended"}, "of-group": {"member"}, "none": nil} {
		if got := names(index.Pods("ns", name)); !slices.Equal(got, want) {
			t.Errorf("claim %s is used by %v, want %v", name, got, want)
		}
	}
	if got := index.Devices("ns", "extended"); len(got) != 1 || got[0].String() != "d/p/dev2" {
		t.Errorf("the pod with extended resources holds %v", got)
	}
	if got := index.Devices("ns", "outsider"); got != nil {
		t.Errorf("a pod outside of the group holds %v", got)
	}
	if got := index.Claims(DeviceID{"d", "p", "dev0"}); len(got) != 1 || got[0].Name != "shared" {
		t.Errorf("dev0 is held by %v", got)
	}
	impact := index.Impact(&resourceapi.DeviceTaintSelector{}, nil)
	if len(impact.Devices) != 4 || len(impact.Claims) != 4 || len(impact.Pods) != 4 || !slices.Equal(impact.Namespaces, []string{"ns"}) {
		t.Errorf("an empty selector hits %+v", impact)
	}
	if impact := index.Impact(nil, nil); len(impact.Devices) != 0 || len(impact.Pods) != 0 {
		t.Errorf("no selector hits %+v", impact)
	}
}

// TestTolerations: only what stays for good is not hit.
func TestTolerations(t *testing.T) {
	taint := &resourceapi.DeviceTaint{Key: "example.com/k", Effect: resourceapi.DeviceTaintEffectNoExecute}
	seconds := int64(60)
	for name, tt := range map[string]struct {
		toleration resourceapi.DeviceToleration
		hit        bool
	}{
		"for good":     {resourceapi.DeviceToleration{Operator: "Exists", Effect: "NoExecute"}, false},
		"for a time":   {resourceapi.DeviceToleration{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}, true},
		"empty effect": {resourceapi.DeviceToleration{Operator: "Exists"}, true},
		"other key":    {resourceapi.DeviceToleration{Key: "example.com/other", Operator: "Exists", Effect: "NoExecute"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := pod("p", "c"), claim("c", "dev0", "dev1")
			for i := range c.Status.Allocation.Devices.Results {
				c.Status.Allocation.Devices.Results[i].Tolerations = []resourceapi.DeviceToleration{tt.toleration}
			}
			var index Index
			index.SetPod(p)
			index.SetClaim(reserve(c, p))
			impact := index.Impact(&resourceapi.DeviceTaintSelector{}, taint)
			if (len(impact.Pods) == 1) != tt.hit || (len(impact.Tolerating) == 1) == tt.hit {
				t.Errorf("%+v", impact)
			}
		})
	}
}

// history makes an index and the events that it receives from bytes, one byte a step.
type history struct {
	index   Index
	claims  map[string]*resourceapi.ResourceClaim
	pods    map[string]*corev1.Pod
	budgets map[string]*policyv1.PodDisruptionBudget
}

func newHistory() *history {
	return &history{claims: map[string]*resourceapi.ResourceClaim{}, pods: map[string]*corev1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{}}
}

func (h *history) step(b uint32) {
	bits := func(n uint32) uint32 {
		r := b % n
		b /= n
		return r
	}
	kind, name, gone := bits(3), strconv.Itoa(int(bits(4))), bits(4) == 0
	switch {
	case kind == 0 && gone:
		delete(h.claims, name)
		h.index.DeleteClaim("ns", name)
	case kind == 0:
		c := claim(name)
		for range bits(4) {
			c.Status.Allocation = claim("", "dev"+strconv.Itoa(int(bits(3)))).Status.Allocation
			if bits(2) == 0 {
				c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, claim("", "dev1").Status.Allocation.Devices.Results...)
				c.Status.Allocation.Devices.Results[0].Tolerations = []resourceapi.DeviceToleration{{Operator: "Exists", Effect: "NoExecute"}}
			}
		}
		p := pod(strconv.Itoa(int(bits(4))))
		if bits(2) == 0 {
			owned(c, p)
		}
		h.claims[name] = reserve(c, p, pod(strconv.Itoa(int(bits(4)))))
		h.index.SetClaim(c)
	case kind == 1 && gone:
		delete(h.pods, name)
		h.index.DeletePod("ns", name)
	case kind == 1:
		p := pod(name)
		for range bits(3) {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, pod("", strconv.Itoa(int(bits(4)))).Spec.ResourceClaims...)
		}
		if bits(3) == 0 {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: strconv.Itoa(int(bits(4)))}
		}
		if bits(4) == 0 {
			p.Status.Phase = corev1.PodSucceeded
		}
		if bits(4) == 0 {
			p.UID = "another"
		}
		h.pods[name] = p
		h.index.SetPod(p)
	case gone:
		delete(h.budgets, name)
		h.index.DeleteBudget("ns", name)
	default:
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if bits(3) > 0 {
			budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		}
		h.budgets[name] = budget
		h.index.SetBudget(budget)
	}
}

// holds computes from scratch whether a pod holds a claim.
func holds(p *corev1.Pod, c *resourceapi.ResourceClaim) bool {
	refers := false
	for _, r := range p.Spec.ResourceClaims {
		refers = refers || *r.ResourceClaimName == c.Name
	}
	if e := p.Status.ExtendedResourceClaimStatus; e != nil && e.ResourceClaimName == c.Name {
		refers = refers || len(c.OwnerReferences) > 0 && c.OwnerReferences[0].UID == p.UID
	}
	return c.Status.Allocation != nil && refers && slices.ContainsFunc(c.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == p.UID })
}

// naive computes an impact from scratch.
func (h *history) naive(selected func(DeviceID) bool, tolerable bool) Impact {
	devices, claims, tolerating, pods := map[DeviceID]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for name, c := range h.claims {
		if c.Status.Allocation == nil {
			continue
		}
		some := map[DeviceID]bool{}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := DeviceID{r.Driver, r.Pool, r.Device}
			if selected(id) {
				some[id] = some[id] || !tolerable || len(r.Tolerations) == 0
			}
		}
		for id, hit := range some {
			if hit {
				devices[id], claims[name] = true, true
			}
		}
		tolerating[name] = len(some) > 0 && !claims[name]
		for _, p := range h.pods {
			if claims[name] && p.Status.Phase != corev1.PodSucceeded && holds(p, c) {
				pods[p.Name] = true
			}
		}
	}
	impact := Impact{Devices: slices.SortedFunc(maps.Keys(devices), DeviceID.Compare), Claims: keys(claims), Tolerating: keys(tolerating), Pods: keys(pods)}
	if len(pods) > 0 {
		impact.Namespaces = []string{"ns"}
	}
	for _, name := range slices.Sorted(maps.Keys(h.budgets)) {
		n := 0
		for p := range pods {
			if s := h.budgets[name].Spec.Selector; s != nil && labels.SelectorFromSet(s.MatchLabels).Matches(labels.Set(h.pods[p].Labels)) {
				n++
			}
		}
		if n > 0 {
			impact.Budgets = append(impact.Budgets, BudgetImpact{"ns", name, n, 0})
		}
	}
	return impact
}

func keys(of map[string]bool) (names []types.NamespacedName) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] {
			names = append(names, types.NamespacedName{Namespace: "ns", Name: name})
		}
	}
	return names
}

// check compares the index with what can be computed from scratch.
func (h *history) check(t *testing.T) {
	t.Helper()
	taint := &resourceapi.DeviceTaint{Key: "example.com/k", Effect: resourceapi.DeviceTaintEffectNoExecute}
	for _, tt := range []struct {
		device string
		taint  *resourceapi.DeviceTaint
	}{{"", nil}, {"", taint}, {"dev0", nil}, {"dev1", taint}} {
		selector := &resourceapi.DeviceTaintSelector{}
		if tt.device != "" {
			selector.Device = &tt.device
		}
		want := h.naive(func(id DeviceID) bool { return tt.device == "" || tt.device == id.Device }, tt.taint != nil)
		got := h.index.Impact(selector, tt.taint)
		if text(t, want) != text(t, got) {
			t.Fatalf("impact on %q (-want +got):\n%s", tt.device, cmp.Diff(want, got))
		}
	}
	h.checkConcerned(t)
	for name, p := range h.pods {
		devices := map[DeviceID]struct{}{}
		for _, c := range h.claims {
			if holds(p, c) {
				for _, id := range allocated(c) {
					devices[id] = struct{}{}
				}
			}
		}
		if want, got := slices.SortedFunc(maps.Keys(devices), DeviceID.Compare), h.index.Devices("ns", name); !slices.Equal(want, got) {
			t.Fatalf("pod %s holds %v, want %v", name, got, want)
		}
	}
	if len(h.claims)+len(h.pods) == 0 && len(h.index.claims)+len(h.index.pods)+len(h.index.devices)+len(h.index.naming) != 0 {
		t.Fatal("something is left in an empty index")
	}
}

// checkConcerned compares the pods of each device, and of all that keep returns true for,
// with a computation from scratch.
func (h *history) checkConcerned(t *testing.T) {
	t.Helper()
	keep := func(r *resourceapi.DeviceRequestAllocationResult) bool { return r.Device != "dev0" }
	var kept []types.NamespacedName
	for _, id := range h.index.Allocated(&resourceapi.DeviceTaintSelector{}) {
		var want []types.NamespacedName
		for _, c := range h.claims {
			for _, its := range allocated(c) {
				if its != id {
					continue
				}
				for _, p := range h.pods {
					for r := range named(p) {
						if r.name == nameOf(c) {
							want = append(want, nameOf(p))
						}
					}
				}
			}
		}
		if id.Device != "dev0" {
			kept = append(kept, want...)
		}
		got := h.index.Concerned(&resourceapi.DeviceTaintSelector{Driver: &id.Driver, Pool: &id.Pool, Device: &id.Device}, nil)
		slices.SortFunc(want, compareNames)
		if slices.SortFunc(got, compareNames); !slices.Equal(got, want) {
			t.Fatalf("device %s concerns %v, want %v", id, got, want)
		}
	}
	got := h.index.Concerned(&resourceapi.DeviceTaintSelector{}, keep)
	slices.SortFunc(kept, compareNames)
	if slices.SortFunc(got, compareNames); !slices.Equal(got, kept) {
		t.Fatalf("the kept devices concern %v, want %v", got, kept)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// FuzzIndex runs histories made of bytes and compares with a computation from scratch
// after each step. Its seeds are the model test.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		var steps []byte
		for range 200 {
			steps = binary.LittleEndian.AppendUint32(steps, random.Uint32())
		}
		f.Add(steps)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		h := newHistory()
		for n := 0; len(steps) >= 4 && n < 300; n++ {
			h.step(binary.LittleEndian.Uint32(steps))
			steps = steps[4:]
			h.check(t)
		}
		for _, name := range slices.Collect(maps.Keys(h.claims)) {
			delete(h.claims, name)
			h.index.DeleteClaim("ns", name)
		}
		for _, name := range slices.Collect(maps.Keys(h.pods)) {
			delete(h.pods, name)
			h.index.DeletePod("ns", name)
		}
		h.check(t)
	})
}
