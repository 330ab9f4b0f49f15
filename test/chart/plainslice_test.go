package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// A plain slice has only what neither defaults nor API servers without a feature change.
func plainSlice() *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: new("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	for i := range resourceapi.ResourceSliceMaxDevices {
		device := resourceapi.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
		for j := range resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - 1 {
			device.Attributes[resourceapi.QualifiedName(fmt.Sprint("attribute-", j))] = resourceapi.DeviceAttribute{StringValue: new("text")}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

// TestPlainSlices: the largest plain slice is not sent to the mutating webhook, within the costs that an API server allows,
// unless patches are written into slices.
func TestPlainSlices(t *testing.T) {
	text := manifestOf(t, plainSlice())
	for mode, want := range map[string]bool{"none": false, "materialize": true, "restore": true} {
		hook := slicesHook(t, values{"patches": values{"mode": mode}})
		for _, before := range []string{"", text} {
			if sent := sends(t, hook, before, text); sent != want {
				t.Errorf("mode %s: sent is %v, want %v", mode, sent, want)
			}
		}
	}
}

// TestSlicesWithMore sets each field of a slice by itself. Whatever the mutating webhook changes, or says something of, is
// sent to it.
func TestSlicesWithMore(t *testing.T) {
	hook := slicesHook(t, nil)
	plain := plainSlice()
	plain.Spec.Devices = plain.Spec.Devices[:1]
	before := manifestOf(t, plain)
	sent, judged := map[string]bool{}, 0
	for path, slice := range withEachField(plain) {
		after := manifestOf(t, slice)
		for _, write := range [][2]string{{"", after}, {before, after}, {after, before}, {after, after}} {
			is := sends(t, hook, write[0], write[1])
			said := mutated(t, write[0], write[1])
			if judged += len(said); len(said) > 0 && !is {
				t.Errorf("%s is not sent, and the webhook says: %s", path, said)
			}
			if write[0] == "" {
				sent[path] = is
			}
		}
	}
	if judged == 0 || len(sent) < 60 {
		t.Errorf("%d statements on %d fields", judged, len(sent))
	}
	for path, is := range sent {
		want := !strings.HasPrefix(path, "ObjectMeta.") && !slices.ContainsFunc(plainFields, func(field string) bool { return strings.HasPrefix(path+".", "Spec."+field+".") })
		if is != want {
			t.Errorf("%s: sent is %v, want %v", path, is, want)
		}
	}
	record := plainSlice()
	record.Annotations = map[string]string{"dra-steward.io/materialized": "{}"}
	for _, write := range [][2]string{{"", manifestOf(t, record)}, {before, manifestOf(t, record)}, {manifestOf(t, record), before}} {
		if !sends(t, hook, write[0], write[1]) {
			t.Errorf("a slice with values of patches is not sent")
		}
	}
}

// plainFields are those of the spec of a plain slice.
var plainFields = []string{"Driver", "Pool", "NodeName", "NodeSelector", "AllNodes", "Devices.Name",
	"Devices.Attributes.IntValue", "Devices.Attributes.BoolValue", "Devices.Attributes.StringValue", "Devices.Attributes.VersionValue", "Devices.Capacity.Value"}

func slicesHook(t *testing.T, v values) hook {
	t.Helper()
	for _, h := range render(t, with(v), Options{}).hooks() {
		if h.Name == "slices.mutate.dra-steward.io" {
			return h
		}
	}
	t.Fatal("no webhook slices.mutate.dra-steward.io")
	return hook{}
}

func manifestOf(t *testing.T, slice *resourceapi.ResourceSlice) string {
	t.Helper()
	data, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// mutated is all that the webhook answers on the supported minors, with all feature gates on and with all off.
func mutated(t *testing.T, before, after string) (said []string) {
	t.Helper()
	for minor := apiserver.OldestMinor; minor <= apiserver.NewestMinor; minor++ {
		for _, on := range []bool{false, true} {
			gates := map[apiserver.Gate]bool{}
			for _, gate := range apiserver.Gates() {
				gates[gate] = on
			}
			reviewer := review.Reviewer{InCluster: true, Profile: apiserver.Profile{Minor: minor, Gates: gates}}
			request := review.Request{Kind: schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}, Object: []byte(after), Now: time.Now()}
			if before != "" {
				request.Old = []byte(before)
			}
			answer, err := reviewer.Mutate(request)
			if err != nil {
				t.Fatalf("%v of %s", err, after)
			}
			for _, change := range answer.Changes {
				said = append(said, "changes "+change.Pointer)
			}
			for _, finding := range answer.Findings {
				said = append(said, finding.Path+": "+finding.Message)
			}
		}
	}
	return said
}

// withEachField returns copies of a slice in each of which one field has a value. Lists and maps have one item there.
func withEachField(slice *resourceapi.ResourceSlice) map[string]*resourceapi.ResourceSlice {
	all := map[string]*resourceapi.ResourceSlice{}
	changed := slice.DeepCopy()
	visit(reflect.ValueOf(changed).Elem(), "", func(path string) { all[path] = changed.DeepCopy() })
	maps.DeleteFunc(all, func(path string, _ *resourceapi.ResourceSlice) bool { return strings.HasPrefix(path, "TypeMeta.") })
	return all
}

// visit sets each field below v by itself, and calls seen each time.
func visit(v reflect.Value, path string, seen func(path string)) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	defer v.Set(was)
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.Now().Rfc3339Copy()))
		seen(path)
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		seen(path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), seen)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		visit(v.Elem(), path, seen)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		visit(v.Index(0), path, seen)
	case reflect.Map:
		key := reflect.ValueOf("example.com/a").Convert(v.Type().Key())
		item := reflect.New(v.Type().Elem()).Elem()
		visit(item, path, func(path string) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, item)
			seen(path)
		})
	case reflect.String:
		v.SetString("a")
		seen(path)
	case reflect.Bool:
		v.SetBool(true)
		seen(path)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
		seen(path)
	}
}
