package review_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestLegitimate: whatever the drivers publish and users write by the drivers' documentation,
// no rule and no policy has an error, and warnings are those that the case is about. Each seed
// is a cluster of one minor from the first slice to an allocated claim and an ill device.
func TestLegitimate(t *testing.T) {
	const clusters = 80
	written, policies := 0, withPolicies(t, v1alpha1.StewardConfiguration{}).Policies
	for seed := range uint64(clusters) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newLegitimate(t, seed, policies)
			c.run()
			written += c.written
		})
	}
	if written < 3000 {
		t.Errorf("%d objects, want thousands", written)
	}
	t.Logf("%d writes", written)
}

// legitimate is a cluster that is written to.
type legitimate struct {
	*generator
	t         *testing.T
	now       time.Time
	inCluster review.Reviewer
	offline   review.Reviewer
	world     *validate.Objects
	// expected are the rules whose warnings the next write is about.
	expected []string
	written  int
}

func newLegitimate(t *testing.T, seed uint64, policies *policy.Engine) *legitimate {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 19)), minor: apiserver.OldestMinor + int(seed)%(apiserver.NewestMinor-apiserver.OldestMinor+1)}
	drivers := map[string]v1alpha1.Driver{}
	for _, p := range publishers() {
		if g.one(50) {
			drivers[p.driver] = v1alpha1.Driver{Users: []string{p.account}}
		}
	}
	c := &legitimate{generator: g, t: t, now: time.Unix(1_800_000_000, 0).UTC(), world: &validate.Objects{}}
	var err error
	if c.inCluster, err = review.New(v1alpha1.StewardConfiguration{Drivers: drivers}); err != nil {
		t.Fatal(err)
	}
	c.inCluster.InCluster, c.inCluster.Policies = true, policies
	c.inCluster.Profile, c.inCluster.ClusterView, c.inCluster.SliceAuthors = apiserver.Profile{Minor: g.minor}, c.world, &review.SliceAuthors{}
	c.offline = review.Reviewer{Profile: apiserver.Profile{Minor: g.minor}}
	return c
}

func (c *legitimate) run() {
	all := publishers()
	if c.minor < 36 { // the fields of partitionable devices are off by default
		all = slices.DeleteFunc(all, func(p publisher) bool { return p.driver == fabric().driver })
	}
	c.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all[:2+c.IntN(2)] {
		var classes []string
		for _, class := range p.classes {
			classes = append(classes, class.Name)
			c.expected = []string{"selector-devices"} // the driver has not published yet
			c.world.Add(write(c, "", "admin", &class, nil))
		}
		for node := range 1 + c.IntN(2) {
			pool := c.publish(p, node)
			for range 3 {
				claim := c.claim(p, classes[0])
				c.template(claim)
				c.allocate(p, claim, pool)
			}
			c.republish(p, pool)
			c.taintRules(p, pool[0])
		}
	}
}

// write is one write: in the cluster by both steps of the webhook, and offline. It returns what is
// stored.
func write[T any](c *legitimate, subresource, user string, object, old *T) *T {
	c.t.Helper()
	c.written++
	encode := func(o *T) []byte {
		if o == nil {
			return nil
		}
		data, err := json.Marshal(o)
		if err != nil {
			c.t.Fatal(err)
		}
		return data
	}
	meta := any(object).(metav1.Object)
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")
	req := review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind(kind), Subresource: subresource, Object: encode(object), Old: encode(old),
		Namespace: meta.GetNamespace(), User: c.user(user, object), Now: c.now}
	mutated, err := c.inCluster.Mutate(req)
	c.check("mutate", req, mutated, err)
	req.Object = patched(c.t, req.Object, mutated)
	validated, err := c.inCluster.Validate(req)
	c.check("validate", req, validated, err)
	if subresource == "" {
		answer, err := c.offline.Review(req)
		c.check("lint", req, answer, err)
	}
	stored := new(T)
	if err := json.Unmarshal(req.Object, stored); err != nil {
		c.t.Fatal(err)
	}
	c.expected = nil
	return stored
}

// user is who writes; drivers have the node of their pod in their token.
func (c *legitimate) user(name string, object any) *authenticationv1.UserInfo {
	user := who(name, "system:authenticated")
	if strings.HasPrefix(name, "system:serviceaccount:") {
		user.Groups = append(user.Groups, "system:serviceaccounts")
	}
	if slice, is := object.(*resourceapi.ResourceSlice); is && slice.Spec.NodeName != nil {
		user.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {*slice.Spec.NodeName}}
	}
	return user
}

func patched(t *testing.T, object []byte, answer review.Answer) []byte {
	t.Helper()
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	var operations []operation
	for _, change := range answer.Changes {
		if change.Remove {
			operations = append(operations, operation{Op: "remove", Path: change.Pointer})
		} else {
			operations = append(operations, operation{"add", change.Pointer, change.Value})
		}
	}
	if operations == nil {
		return object
	}
	data, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	if object, err = patch.Apply(object); err != nil {
		t.Fatal(err)
	}
	return object
}

// check reports errors, and warnings that the write is not about.
func (c *legitimate) check(step string, req review.Request, answer review.Answer, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Errorf("%s %s 1.%d: %v\n%s", step, req.Kind.Kind, c.minor, err, req.Object)
	}
	for _, f := range answer.Findings {
		dropped := f.Rule == "field-dropped" // off by default in the minor
		if f.Severity == validate.Error || !dropped && !slices.Contains(c.expected, f.Rule) {
			c.t.Errorf("%s %s 1.%d: %s %s: %s: %s\n%s", step, req.Kind.Kind, c.minor, f.Severity, f.Rule, f.Path, f.Message, req.Object)
		}
	}
}

// publish writes the pool of a node, as the helper of Kubernetes for drivers does.
func (c *legitimate) publish(p publisher, node int) (pool []*resourceapi.ResourceSlice) {
	devices, counters := p.devices(c.generator, node)
	perDevice := slices.ContainsFunc(devices, func(d resourceapi.Device) bool {
		return d.NodeSelector != nil || d.NodeName != nil || d.AllNodes != nil
	})
	most := resourceapi.ResourceSliceMaxDevices
	if len(counters) > 0 {
		most = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	add := func(spec resourceapi.ResourceSliceSpec) {
		spec.Driver, spec.Pool.Name, spec.Pool.Generation = p.driver, nodeName(node), 1
		if perDevice {
			spec.PerDeviceNodeSelection, spec.Pool.Name = new(true), fmt.Sprintf("fabric-%d", node)
		} else {
			spec.NodeName = new(nodeName(node))
		}
		slice := &resourceapi.ResourceSlice{Spec: spec}
		slice.GenerateName = fmt.Sprintf("%05d-%s-%s-", len(pool), p.driver, nodeName(node))
		slice.Name = slice.GenerateName + fmt.Sprintf("%05x", c.IntN(1<<20))
		slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName(node), UID: types.UID(c.uuid()), Controller: new(true)}}
		pool = append(pool, slice)
	}
	for chunk := range slices.Chunk(counters, resourceapi.ResourceSliceMaxCounterSets) {
		add(resourceapi.ResourceSliceSpec{SharedCounters: chunk})
	}
	for chunk := range slices.Chunk(devices, most) {
		add(resourceapi.ResourceSliceSpec{Devices: chunk})
	}
	c.writePool(p, pool, make([]*resourceapi.ResourceSlice, len(pool)))
	return pool
}

// writePool writes the slices of a pool one after the other. Until the last one is written the pool
// has fewer than it says.
func (c *legitimate) writePool(p publisher, pool, old []*resourceapi.ResourceSlice) {
	c.t.Helper()
	for i, slice := range pool {
		slice.Spec.Pool.ResourceSliceCount = int64(len(pool))
		c.expected = []string{"pool-slice-count", "pool-counter-reference", "pool-generation"}
		if len(pool) == 1 {
			c.expected = nil
		}
		pool[i] = write(c, "", p.account, slice, old[i])
		c.world.Add(pool[i])
	}
}

// republish writes the pool again: as it is, and with an ill device in a new generation.
func (c *legitimate) republish(p publisher, pool []*resourceapi.ResourceSlice) {
	for _, stored := range pool {
		write(c, "", p.account, stored.DeepCopy(), stored)
	}
	if len(p.taints) == 0 || c.minor < 36 {
		return
	}
	c.now = c.now.Add(time.Hour)
	var next []*resourceapi.ResourceSlice
	for _, stored := range pool {
		slice := stored.DeepCopy()
		slice.Spec.Pool.Generation++
		if n := len(slice.Spec.Devices); n > 0 && n <= resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures {
			d := &slice.Spec.Devices[c.IntN(n)]
			d.Taints = append(d.Taints, pick(c.generator, p.taints))
		}
		next = append(next, slice)
	}
	c.writePool(p, next, pool)
}

// request is what a user asks of a class.
func (c *legitimate) request(p publisher, class string) resourceapi.DeviceRequest {
	exact := resourceapi.ExactDeviceRequest{DeviceClassName: class}
	if len(p.selectors) > 0 && c.one(60) {
		exact.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: pick(c.generator, p.selectors)}}}
	}
	switch c.IntN(4) {
	case 0:
		exact.AllocationMode = resourceapi.DeviceAllocationModeAll
	case 1:
		exact.AllocationMode, exact.Count = resourceapi.DeviceAllocationModeExactCount, int64(1+c.IntN(8))
	}
	if len(p.taints) > 0 && c.minor >= 36 && c.one(50) {
		taint := pick(c.generator, p.taints)
		toleration := resourceapi.DeviceToleration{Key: taint.Key, Operator: resourceapi.DeviceTolerationOpExists, Effect: taint.Effect}
		if c.one(50) {
			toleration.Operator, toleration.Value = resourceapi.DeviceTolerationOpEqual, taint.Value
		}
		if taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
			toleration.TolerationSeconds = new(int64(60 + c.IntN(600)))
		}
		if taint.Effect != resourceapi.DeviceTaintEffectNone {
			exact.Tolerations = []resourceapi.DeviceToleration{toleration}
		}
	}
	return resourceapi.DeviceRequest{Name: "device", Exactly: &exact}
}

// claim writes the claim of a user.
func (c *legitimate) claim(p publisher, class string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.Namespace = fmt.Sprintf("claim-%d", c.Uint32()), "team-a"
	devices := &claim.Spec.Devices
	devices.Requests = []resourceapi.DeviceRequest{c.request(p, class)}
	exact := devices.Requests[0].Exactly
	if c.one(20) {
		sub := func(name string, count int64) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: class, Selectors: exact.Selectors, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Tolerations: exact.Tolerations}
		}
		devices.Requests[0] = resourceapi.DeviceRequest{Name: "device", FirstAvailable: []resourceapi.DeviceSubRequest{sub("four", 4), sub("two", 2)}}
	} else if len(p.shared) > 0 && c.one(40) {
		second := c.request(p, class)
		second.Name = "second"
		devices.Requests = append(devices.Requests, second)
		devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"device", "second"}, MatchAttribute: new(resourceapi.FullyQualifiedName(pick(c.generator, p.shared)))}}
	}
	// Whether devices of a pool match is up to the pool.
	c.expected = []string{"selector-devices", "DRA-CLAIM-002", "DRA-TOL-002"}
	parameters := p.parameters
	if len(p.newer) > 0 && c.one(30) {
		parameters = p.newer
		c.expected = append(c.expected, "parameters-choice", "parameters-field", "parameters-kind")
	}
	if len(parameters) > 0 && c.one(60) {
		devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: []string{"device"}, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: p.driver, Parameters: runtime.RawExtension{Raw: []byte(pick(c.generator, parameters))}}}}}
	}
	return write(c, "", "jane", claim, nil)
}

// template writes the same as a template.
func (c *legitimate) template(claim *resourceapi.ResourceClaim) {
	template := &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: *claim.Spec.DeepCopy()}}
	template.Name, template.Namespace, template.Spec.Labels = claim.Name, claim.Namespace, map[string]string{"app.kubernetes.io/name": "train"}
	c.expected = []string{"selector-devices", "DRA-CLAIM-002", "DRA-TOL-002", "parameters-choice", "parameters-field", "parameters-kind"}
	write(c, "", "jane", template, nil)
}

// allocate writes what the scheduler, the driver and the controller write to the status of a
// claim.
func (c *legitimate) allocate(p publisher, claim *resourceapi.ResourceClaim, pool []*resourceapi.ResourceSlice) {
	slice := pool[len(pool)-1]
	exact := claim.Spec.Devices.Requests[0].Exactly
	if len(claim.Spec.Devices.Requests) > 1 || exact == nil || exact.AllocationMode != resourceapi.DeviceAllocationModeExactCount || int(exact.Count) > len(slice.Spec.Devices) {
		return
	}
	allocated := claim.DeepCopy()
	allocated.UID, allocated.Finalizers = types.UID(c.uuid()), []string{resourceapi.Finalizer}
	result := resourceapi.DeviceAllocationResult{}
	for _, device := range slice.Spec.Devices[:exact.Count] {
		r := resourceapi.DeviceRequestAllocationResult{Request: "device", Driver: p.driver, Pool: slice.Spec.Pool.Name, Device: device.Name, Tolerations: exact.Tolerations,
			BindingConditions: device.BindingConditions, BindingFailureConditions: device.BindingFailureConditions}
		if device.AllowMultipleAllocations != nil {
			r.ShareID, r.ConsumedCapacity = new(types.UID(c.uuid())), map[resourceapi.QualifiedName]resource.Quantity{"memory": device.Capacity["memory"].Value}
		}
		result.Results = append(result.Results, r)
	}
	allocated.Status = resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: result},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "train-0", UID: types.UID(c.uuid())}}}
	before := allocated.DeepCopy()
	before.Status = resourceapi.ResourceClaimStatus{}
	stored := write(c, "status", "system:kube-scheduler", allocated, before)

	reported := stored.DeepCopy()
	for _, r := range result.Results {
		status := resourceapi.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device,
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "NetworkReady", LastTransitionTime: metav1.NewTime(c.now)}}}
		if r.ShareID != nil {
			status.ShareID = new(string(*r.ShareID))
		}
		if p.network {
			status.NetworkData = &resourceapi.NetworkDeviceData{InterfaceName: "net1", HardwareAddress: "00:11:22:33:44:55", IPs: []string{"10.0.1.7/24", "fd00::7/64"}}
			status.Data = &runtime.RawExtension{Raw: []byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"net1"}]}`)}
		}
		reported.Status.Devices = append(reported.Status.Devices, status)
	}
	stored = write(c, "status", p.account, reported, stored)

	released := stored.DeepCopy()
	released.Status.ReservedFor = nil
	stored = write(c, "status", "system:serviceaccount:kube-system:resource-claim-controller", released, stored)
	free := stored.DeepCopy()
	free.Status = resourceapi.ResourceClaimStatus{}
	write(c, "status", "system:serviceaccount:kube-system:resource-claim-controller", free, stored)
}

// taintRules writes the rules of drivers and of those who maintain a node.
func (c *legitimate) taintRules(p publisher, slice *resourceapi.ResourceSlice) {
	rule := func(user string, taint resourceapi.DeviceTaint, selector resourceapi.DeviceTaintSelector) {
		r := &resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &selector, Taint: taint}}
		r.Name = fmt.Sprintf("%s-%d", p.driver, c.Uint32())
		if user == "admin" {
			r.Annotations = map[string]string{v1alpha1.OwnerAnnotation: "hardware", v1alpha1.ReasonAnnotation: "firmware"}
		}
		evicts := taint.Effect == resourceapi.DeviceTaintEffectNoExecute
		expect := func() {
			if evicts { // without a preview, and in the domain of a driver
				c.expected = []string{"DRA-RULE-003", "DRA-RULE-006"}
			}
		}
		expect()
		r = write(c, "", user, r, nil)
		again := r.DeepCopy()
		again.Labels = map[string]string{"team": "hardware"}
		expect()
		write(c, "", user, again, r)
	}
	pool, driver := slice.Spec.Pool.Name, p.driver
	rule("admin", resourceapi.DeviceTaint{Key: "example.com/maintenance", Value: "firmware", Effect: resourceapi.DeviceTaintEffectNoSchedule}, resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool})
	if len(slice.Spec.Devices) == 0 {
		return
	}
	device := slice.Spec.Devices[0].Name
	// As the health monitor of the driver for Gaudi does it.
	rule(p.account, resourceapi.DeviceTaint{Key: p.driver + "/unhealthy", Value: "CriticalError", Effect: resourceapi.DeviceTaintEffectNoExecute}, resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool, Device: &device})
}
