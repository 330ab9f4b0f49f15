package objects

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func (r random) meta(namespaced bool) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: r.text("a", "node-1-gpu", "example.com")}
	if namespaced {
		meta.Namespace = "default"
	}
	if r.chance(0.1) {
		meta.Labels = map[string]string{r.labelName(): r.labelValue()}
	}
	if r.chance(0.05) {
		meta.Annotations = map[string]string{r.labelName(): "x"}
	}
	return meta
}

func (r random) claim() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: r.meta(true), Spec: r.claimSpec()}
	if r.chance(0.3) {
		claim.Finalizers = []string{r.text(resourceapi.Finalizer)}
	}
	return claim
}

func (r random) template() *resourceapi.ResourceClaimTemplate {
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: r.meta(true)}
	template.Spec.Spec = r.claimSpec()
	if r.chance(0.2) {
		template.Spec.Labels = map[string]string{r.labelName(): r.labelValue()}
	}
	return template
}

func (r random) claimSpec() (spec resourceapi.ResourceClaimSpec) {
	n := r.size(resourceapi.DeviceRequestsMaxSize)
	if n == 0 && r.chance(0.8) {
		n = 1
	}
	var names []string
	for i := range n {
		request := r.request(i)
		spec.Devices.Requests = append(spec.Devices.Requests, request)
		names = append(names, request.Name)
		for _, alternative := range request.FirstAvailable {
			names = append(names, request.Name+"/"+alternative.Name)
		}
	}
	if r.chance(0.25) {
		spec.Devices.Constraints = some(r, resourceapi.DeviceConstraintsMaxSize, func(int) resourceapi.DeviceConstraint { return r.constraint(names) })
	}
	if r.chance(0.25) {
		spec.Devices.Config = some(r, resourceapi.DeviceConfigMaxSize, func(int) resourceapi.DeviceClaimConfiguration {
			return resourceapi.DeviceClaimConfiguration{Requests: r.references(names), DeviceConfiguration: r.configuration()}
		})
	}
	return spec
}

func (r random) request(i int) resourceapi.DeviceRequest {
	request := resourceapi.DeviceRequest{Name: r.unique("req", i)}
	if r.chance(0.3) {
		request.FirstAvailable = some(r, resourceapi.FirstAvailableDeviceRequestMaxSize, r.alternative)
	}
	if request.FirstAvailable == nil || r.chance(r.wild) {
		request.Exactly = &resourceapi.ExactDeviceRequest{}
		a, e := r.alternative(0), request.Exactly
		e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count = a.DeviceClassName, a.Selectors, a.AllocationMode, a.Count
		e.Tolerations, e.Capacity, e.DerivedAttributes = a.Tolerations, a.Capacity, a.DerivedAttributes
		e.AdminAccess = maybe(r, 0.1, r.bool())
	}
	return request
}

func (r random) alternative(i int) resourceapi.DeviceSubRequest {
	a := resourceapi.DeviceSubRequest{Name: r.unique("sub", i), DeviceClassName: r.class()}
	if r.chance(0.1) {
		a.Selectors = some(r, 3, func(int) resourceapi.DeviceSelector { return r.selector() })
	}
	switch r.IntN(4) {
	case 0:
		a.AllocationMode = resourceapi.DeviceAllocationModeAll
	case 1:
		a.AllocationMode, a.Count = resourceapi.DeviceAllocationModeExactCount, int64(1+r.IntN(4))
	case 2:
		a.Count = int64(1 + r.IntN(4))
	}
	if r.chance(r.wild) {
		a.Count = int64(r.IntN(3) - 1)
	}
	if r.chance(0.3) {
		a.Tolerations = some(r, resourceapi.DeviceTolerationsMaxLength, func(int) resourceapi.DeviceToleration { return r.toleration() })
	}
	if r.chance(0.1) {
		a.Capacity = &resourceapi.CapacityRequirements{Requests: table(r, 2, func(i int) resourceapi.QualifiedName {
			return resourceapi.QualifiedName(r.attribute(i))
		}, r.quantity)}
	}
	if r.chance(r.wild) {
		a.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: resourceapi.FullyQualifiedName(r.qualified()), Expression: r.text(`"a"`, "1")}}
	}
	return a
}

func (r random) selector() resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: r.expression()}}
}

func (r random) toleration() resourceapi.DeviceToleration {
	t := resourceapi.DeviceToleration{
		Operator: resourceapi.DeviceTolerationOperator(r.text("", "Equal", "Exists")),
		Effect:   resourceapi.DeviceTaintEffect(r.text("", "NoSchedule", "NoExecute", "None")),
	}
	if r.chance(0.8) {
		t.Key = r.labelName()
	}
	if t.Operator != resourceapi.DeviceTolerationOpExists || r.chance(r.wild) {
		t.Value = r.labelValue()
	}
	t.TolerationSeconds = maybe(r, 0.3, int64(r.IntN(700)-100))
	return t
}

func (r random) constraint(names []string) resourceapi.DeviceConstraint {
	name := resourceapi.FullyQualifiedName(r.qualified())
	constraint := resourceapi.DeviceConstraint{Requests: r.references(names)}
	if r.chance(0.7) {
		constraint.MatchAttribute = &name
	} else if !r.chance(r.wild) {
		constraint.DistinctAttribute = &name
	}
	return constraint
}

// references names some of the requests.
func (r random) references(names []string) (list []string) {
	for _, name := range names {
		if r.chance(0.3) {
			list = append(list, r.text(name))
		}
	}
	return list
}

func (r random) configuration() resourceapi.DeviceConfiguration {
	if r.chance(r.wild) {
		return resourceapi.DeviceConfiguration{}
	}
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: r.driver(), Parameters: r.raw()}}
}

func (r random) raw() runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(pick(r, `{}`, `{"a":1}`, `{"kind":"Config","apiVersion":"example.com/v1"}`))}
}

func (r random) deviceClass() *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: r.meta(false)}
	class.Spec.Selectors = some(r, 3, func(int) resourceapi.DeviceSelector { return r.selector() })
	class.Spec.Config = some(r, resourceapi.DeviceConfigMaxSize, func(int) resourceapi.DeviceClassConfiguration {
		return resourceapi.DeviceClassConfiguration{DeviceConfiguration: r.configuration()}
	})
	class.Spec.ExtendedResourceName = maybe(r, 0.3, r.text("example.com/gpu", "a.b/c"))
	return class
}

func (r random) taintRule() *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: r.meta(false)}
	if r.chance(0.8) {
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{
			Driver: maybe(r, 0.6, r.driver()), Pool: maybe(r, 0.6, r.pool()), Device: maybe(r, 0.6, r.label()),
		}
	}
	rule.Spec.Taint = r.taint()
	return rule
}

// allocate gives a claim the status that a scheduler and a driver would write.
func (r random) allocate(claim *resourceapi.ResourceClaim) {
	var allocation resourceapi.AllocationResult
	results := &allocation.Devices.Results
	for _, request := range claim.Spec.Devices.Requests {
		result := r.result(request, len(*results))
		*results = append(*results, result)
		if r.chance(0.3) {
			claim.Status.Devices = append(claim.Status.Devices, r.deviceStatus(result))
		}
	}
	if r.chance(0.3) {
		allocation.NodeSelector = r.nodeSelector()
	}
	if r.chance(0.2) {
		allocation.Devices.Config = some(r, 2*resourceapi.DeviceConfigMaxSize, func(int) resourceapi.DeviceAllocationConfiguration {
			return resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSource(r.text("FromClass", "FromClaim")), DeviceConfiguration: r.configuration()}
		})
	}
	claim.Status.Allocation = &allocation
	claim.Status.ReservedFor = some(r, resourceapi.ResourceClaimReservedForMaxSize, func(i int) resourceapi.ResourceClaimConsumerReference {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: r.unique("pod", i), UID: types.UID(uid)}
	})
}

func (r random) result(request resourceapi.DeviceRequest, i int) resourceapi.DeviceRequestAllocationResult {
	name := request.Name
	if len(request.FirstAvailable) > 0 {
		name += "/" + request.FirstAvailable[0].Name
	}
	result := resourceapi.DeviceRequestAllocationResult{
		Request: r.text(name), Driver: r.driver(), Pool: r.pool(), Device: r.unique("gpu", i),
	}
	if r.chance(0.3) {
		result.Tolerations = some(r, resourceapi.DeviceTolerationsMaxLength, func(int) resourceapi.DeviceToleration { return r.toleration() })
	}
	if r.chance(0.1) {
		result.BindingConditions, result.BindingFailureConditions = []string{r.labelName()}, []string{"example.com/failed"}
	}
	if r.chance(0.1) {
		uid := types.UID(r.text("00000000-0000-4000-8000-000000000000"))
		result.ShareID = &uid
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{resourceapi.QualifiedName(r.attribute(0)): r.quantity()}
	}
	if r.chance(0.05) {
		result.SkipNodeOperations = r.operations()
	}
	return result
}

func (r random) deviceStatus(result resourceapi.DeviceRequestAllocationResult) resourceapi.AllocatedDeviceStatus {
	status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
	if result.ShareID != nil {
		id := string(*result.ShareID)
		status.ShareID = &id
	}
	status.Conditions = some(r, resourceapi.AllocatedDeviceStatusMaxConditions, r.condition)
	if r.chance(0.3) {
		raw := r.raw()
		status.Data = &raw
	}
	if r.chance(0.5) {
		status.NetworkData = &resourceapi.NetworkDeviceData{
			InterfaceName: r.text("eth0", ""), HardwareAddress: r.text("aa:bb", ""),
			IPs: some(r, resourceapi.NetworkDeviceDataMaxIPs, func(i int) string { return r.text(fmt.Sprintf("10.0.0.%d/24", i), fmt.Sprintf("2001:db8::%x/64", i)) }),
		}
	}
	return status
}

func (r random) condition(i int) metav1.Condition {
	return metav1.Condition{
		Type: r.unique("Ready", i), Status: metav1.ConditionStatus(r.text("True", "False")),
		Reason: r.text("Because"), LastTransitionTime: metav1.Unix(1700000000, 0),
	}
}
