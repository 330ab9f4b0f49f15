package drain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// poolRequests and taintRules are the resources of which v1 is not what the API server stores.
const poolRequests, taintRules = "resourcepoolstatusrequests", "devicetaintrules"

// An older object is one in etcd, as a release before 1.36 has stored it.
type older struct {
	resource, version, namespace, name string
	// was is its UID and its spec when 1.36 read it.
	was string
}

// storeEveryVersion puts an object of each kind and version of resource.k8s.io into etcd with which
// an API server 1.36 can still begin.
func (s site) storeEveryVersion() (all []older) {
	s.Helper()
	began := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	for i, object := range s.everyVersion(began) {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		do(s, err)
		kind := kinds[0]
		object.GetObjectKind().SetGroupVersionKind(kind)
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		o := older{resource: plural.Resource, version: kind.Version, name: strings.ToLower(kind.Kind) + "-" + kind.Version}
		if strings.HasPrefix(o.resource, "resourceclaim") {
			o.namespace = s.name
		}
		fields, err := meta.Accessor(object)
		do(s, err)
		fields.SetName(o.name)
		fields.SetNamespace(o.namespace)
		fields.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i)))
		fields.SetCreationTimestamp(began)
		s.put(o.key(), object)
		o.was = s.now(o)
		all = append(all, o)
	}
	return all
}

func (s site) everyVersion(began metav1.Time) []runtime.Object {
	return append(s.everyKindOfV1beta1(began), append(s.everyKindOfV1beta2(began),
		&resourcev1alpha3.DeviceTaintRule{Spec: resourcev1alpha3.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1alpha3.DeviceTaintSelector{Driver: &s.driver, Device: new("gpu-0")},
			Taint:          resourcev1alpha3.DeviceTaint{Key: "example.com/old", Value: "v1alpha3", Effect: resourcev1alpha3.DeviceTaintEffectNoSchedule, TimeAdded: &began}}},
		&resourcev1alpha3.ResourcePoolStatusRequest{Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{
			Driver: s.driver, PoolName: new("node-1"), Limit: new(int32(7))}},
	)...)
}

func (s site) everyKindOfV1beta1(began metav1.Time) []runtime.Object {
	selectors := []resourcev1beta1.DeviceSelector{{CEL: &resourcev1beta1.CELDeviceSelector{Expression: "true"}}}
	claim := resourcev1beta1.ResourceClaimSpec{Devices: resourcev1beta1.DeviceClaim{Requests: []resourcev1beta1.DeviceRequest{
		{Name: "gpu", DeviceClassName: s.driver, AllocationMode: resourcev1beta1.DeviceAllocationModeExactCount, Count: 1, Selectors: selectors}}}}
	return []runtime.Object{
		&resourcev1beta1.ResourceClaim{Spec: claim},
		&resourcev1beta1.ResourceClaimTemplate{Spec: resourcev1beta1.ResourceClaimTemplateSpec{Spec: claim}},
		&resourcev1beta1.DeviceClass{Spec: resourcev1beta1.DeviceClassSpec{Selectors: selectors}},
		&resourcev1beta1.ResourceSlice{Spec: resourcev1beta1.ResourceSliceSpec{
			Driver: "stored.example.com", NodeName: "node-2", Pool: resourcev1beta1.ResourcePool{Name: "v1beta1", Generation: 3, ResourceSliceCount: 1},
			Devices: []resourcev1beta1.Device{{Name: "gpu-0", Basic: &resourcev1beta1.BasicDevice{
				Attributes: map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceAttribute{"model": {StringValue: new("old")}},
				Capacity:   map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
				Taints:     []resourcev1beta1.DeviceTaint{{Key: "example.com/old", Effect: resourcev1beta1.DeviceTaintEffectNoSchedule, TimeAdded: &began}}}}}}},
	}
}

func (s site) everyKindOfV1beta2(began metav1.Time) []runtime.Object {
	selectors := []resourcev1beta2.DeviceSelector{{CEL: &resourcev1beta2.CELDeviceSelector{Expression: "true"}}}
	claim := resourcev1beta2.ResourceClaimSpec{Devices: resourcev1beta2.DeviceClaim{Requests: []resourcev1beta2.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1beta2.ExactDeviceRequest{DeviceClassName: s.driver, AllocationMode: resourcev1beta2.DeviceAllocationModeExactCount, Count: 1, Selectors: selectors}}}}}
	return []runtime.Object{
		&resourcev1beta2.ResourceClaim{Spec: claim},
		&resourcev1beta2.ResourceClaimTemplate{Spec: resourcev1beta2.ResourceClaimTemplateSpec{Spec: claim}},
		&resourcev1beta2.DeviceClass{Spec: resourcev1beta2.DeviceClassSpec{Selectors: selectors}},
		&resourcev1beta2.ResourceSlice{Spec: resourcev1beta2.ResourceSliceSpec{
			Driver: "stored.example.com", NodeName: new("node-2"), Pool: resourcev1beta2.ResourcePool{Name: "v1beta2", Generation: 3, ResourceSliceCount: 1},
			Devices: []resourcev1beta2.Device{{Name: "gpu-0",
				Attributes: map[resourcev1beta2.QualifiedName]resourcev1beta2.DeviceAttribute{"model": {StringValue: new("old")}},
				Capacity:   map[resourcev1beta2.QualifiedName]resourcev1beta2.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
				Taints:     []resourcev1beta2.DeviceTaint{{Key: "example.com/old", Effect: resourcev1beta2.DeviceTaintEffectNoSchedule, TimeAdded: &began}}}}}},
		&resourcev1beta2.DeviceTaintRule{Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: &s.driver, Pool: new("node-1")},
			Taint:          resourcev1beta2.DeviceTaint{Key: "example.com/old", Value: "v1beta2", Effect: resourcev1beta2.DeviceTaintEffectNoExecute, TimeAdded: &began}}},
	}
}

// key is where API servers store it.
func (o older) key() string {
	if o.namespace != "" {
		return "/registry/" + o.resource + "/" + o.namespace + "/" + o.name
	}
	return "/registry/" + o.resource + "/" + o.name
}

// as is the resource in the newest version that the API server has: v1, if that has it.
func (s site) as(o older) dynamic.ResourceInterface {
	s.Helper()
	switch o.resource {
	case taintRules:
		return rules
	case poolRequests:
		return s.untyped().Resource(resourcev1alpha3.SchemeGroupVersion.WithResource(o.resource))
	}
	return s.untyped().Resource(resourceapi.SchemeGroupVersion.WithResource(o.resource)).Namespace(o.namespace)
}

// now is the UID and the spec, as the API server answers them.
func (s site) now(o older) string {
	s.Helper()
	object, err := s.as(o).Get(s.Context(), o.name, metav1.GetOptions{})
	do(s, err)
	return string(object.GetUID()) + " " + text(object.Object["spec"])
}

// wantAsStored fails if an object is not what it was, or not stored in a version: that in which it
// was put into etcd, unless it was rewritten.
func (s site) wantAsStored(all []older, rewritten bool) {
	s.Helper()
	for _, o := range all {
		if now := s.now(o); now != o.was {
			s.Errorf("%s %s: got %s, want %s", o.resource, o.name, now, o.was)
		}
		if o.resource == taintRules && !rewritten {
			continue // the controllers write their status
		}
		want := schema.GroupVersion{Group: resourceapi.GroupName, Version: o.version}
		if rewritten {
			want.Version = map[string]string{taintRules: "v1beta2", poolRequests: "v1alpha3"}[o.resource]
			if want.Version == "" {
				want.Version = "v1"
			}
		}
		if version := s.storedAs(o.key()); version != want.String() {
			s.Errorf("%s is stored as %s, want %s", o.key(), version, want)
		}
	}
	s.Logf("read %d objects of older versions", len(all))
}

// rewrite stores the object again, as a migration of the storage does.
func (s site) rewrite(o older) {
	s.Helper()
	annotation := []byte(`{"metadata": {"annotations": {"example.com/rewritten": "yes"}}}`)
	do(s, s.create(s.as(o).Patch(s.Context(), o.name, types.MergePatchType, annotation, metav1.PatchOptions{})))
}

// put writes an object into etcd in the form in which API servers store it.
func (s site) put(key string, object runtime.Object) {
	s.Helper()
	var value bytes.Buffer
	do(s, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &value))
	s.askEtcd("/v3/kv/put", map[string][]byte{"key": []byte(key), "value": value.Bytes()}, nil)
}

// storedAs is the version in which etcd has an object.
func (s site) storedAs(key string) string {
	s.Helper()
	var found struct{ Kvs []struct{ Value []byte } }
	s.askEtcd("/v3/kv/range", map[string][]byte{"key": []byte(key)}, &found)
	if len(found.Kvs) != 1 || len(found.Kvs[0].Value) < 4 {
		s.Fatalf("etcd has no %s", key)
	}
	var stored runtime.Unknown
	do(s, stored.Unmarshal(found.Kvs[0].Value[4:])) // behind the magic number
	return stored.APIVersion
}

// etcdMinor is that of the version of etcd, such as 3.6.
func (s site) etcdMinor() string {
	s.Helper()
	var answer struct{ Etcdserver string }
	s.askEtcd("/version", nil, &answer)
	return answer.Etcdserver[:strings.LastIndex(answer.Etcdserver, ".")]
}

func (s site) askEtcd(path string, question, answer any) {
	s.Helper()
	body, err := json.Marshal(question)
	do(s, err)
	method := http.MethodPost
	if question == nil {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(s.Context(), method, cluster.Etcd()+path, bytes.NewReader(body))
	do(s, err)
	response, err := http.DefaultClient.Do(request)
	do(s, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.Fatalf("etcd answers %s", response.Status)
	}
	if answer != nil {
		do(s, json.NewDecoder(response.Body).Decode(answer))
	}
}
