package quantity_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// filled sets every quantity below a value, and makes one element of each list and map.
func filled(v reflect.Value, q resource.Quantity, depth int) {
	switch {
	case v.Type() == reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(q))
		return
	case depth == 0:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), q, depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0), q, depth-1)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		filled(element, q, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), element)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ObjectMeta" && f.Name != "Status" || f.Name == "Status" && depth > 8 {
				filled(v.Field(i), q, depth-1)
			}
		}
	}
}

// costly visits every quantity, and reports those that take long to compare.
func costly(t *testing.T, at string, v reflect.Value) (seen int) {
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		q := v.Interface().(resource.Quantity)
		if d := q.AsDec(); d.Scale() < -1010 || d.UnscaledBig().BitLen() > 4000 {
			t.Errorf("%s is %s", at, q.String())
		}
		return 1
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			seen += costly(t, at, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			seen += costly(t, at+"[]", v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			seen += costly(t, at+"{}", it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ObjectMeta" {
				seen += costly(t, at+"."+f.Name, v.Field(i))
			}
		}
	}
	return seen
}

// TestCap: of what informers read, nothing that is kept has a number that takes long to compare.
func TestCap(t *testing.T) {
	huge := resource.MustParse("10e2147483646")
	for _, object := range []any{&corev1.Pod{}, &corev1.Node{}, &resourceapi.ResourceClaim{}, &resourceapi.ResourceClaimTemplate{}} {
		filled(reflect.ValueOf(object).Elem(), huge, 12)
		kept, err := placement.Keep(object)
		if err != nil {
			t.Fatal(err)
		}
		if seen := costly(t, reflect.TypeOf(object).String(), reflect.ValueOf(kept)); seen == 0 {
			t.Errorf("nothing of %T is tested", object)
		}
	}
	slice := &resourceapi.ResourceSlice{}
	filled(reflect.ValueOf(slice).Elem(), huge, 12)
	published, err := record.Published(slice, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if seen := costly(t, "slice", reflect.ValueOf(published)); seen < 10 {
		t.Errorf("%d numbers of a slice are tested", seen)
	}
	if again, _ := record.Published(published, time.Now()); again != published {
		t.Error("a slice without such numbers is copied")
	}
}

// TestCapKeeps: 1e1000 compares with other numbers as what it stands for, and what is within the bounds stays.
func TestCapKeeps(t *testing.T) {
	for _, text := range []string{"10e2147483646", "-10e2147483646", "1e1100", "80Gi", "500m", "0", "1e-9", "1e999", "-1e999", "9223372036854775808"} {
		node := &corev1.Node{}
		was := resource.MustParse(text)
		node.Status.Allocatable = corev1.ResourceList{"a": was}
		quantity.Cap(node)
		is := node.Status.Allocatable["a"]
		if is.Sign() != was.Sign() {
			t.Errorf("%s becomes %s", text, is.String())
		}
		if quantity.Bounded(text) == nil && is.Cmp(was) != 0 {
			t.Errorf("%s becomes %s", text, is.String())
		}
		if largest := resource.MustParse("9E"); quantity.Bounded(text) != nil && is.Cmp(largest) != was.Sign() {
			t.Errorf("%s becomes %s, which is not beyond 9E", text, is.String())
		}
		is.Add(resource.MustParse("1"))
		is.Sub(resource.MustParse("1Gi"))
		_, _ = is.Value(), is.MilliValue()
	}
}
