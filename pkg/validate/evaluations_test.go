package validate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const liveDriver = "gpu.example.com"

// liveSlice has n devices with their number as an attribute.
func liveSlice(name string, n int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: liveDriver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}}
	for i := range n {
		number := int64(i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"number": {IntValue: &number}}})
	}
	return slice
}

// liveWorld has a class for the driver, and slices of 100 devices.
func liveWorld(slices int) *Objects {
	clusterView := &Objects{}
	clusterView.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: selecting(`device.driver == "` + liveDriver + `"`)}})
	for i := range slices {
		clusterView.Add(liveSlice(fmt.Sprintf("node-%04d", i), 100))
	}
	return clusterView
}

func selecting(expressions ...string) (selectors []resourceapi.DeviceSelector) {
	for _, expression := range expressions {
		selectors = append(selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return selectors
}

func asking(expressions ...string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: selecting(expressions...)}}}}}}
}

// live returns what the rule says.
func live(claim *resourceapi.ResourceClaim, c Conditions) field.ErrorList {
	for _, rule := range ResourceClaim() {
		if rule.ID == "selector-devices" {
			return Table[*resourceapi.ResourceClaim]{rule}.Validate(claim, c)
		}
	}
	return nil
}

const number = `device.attributes["gpu.example.com"].number`

func TestSelectorDevices(t *testing.T) {
	small, large := liveWorld(2), liveWorld(50)
	for _, test := range []struct {
		name, expression string
		clusterView      *Objects
		want             string
	}{
		{"matches some", number + " > 97", small, ""},
		{"matches none", number + " > 100", small, "the selectors match none of the 200 devices of the class gpu"},
		{"fails", `device.attributes["gpu.example.com"].size > 1`, small, "fails on 200 of 200 devices, first on gpu.example.com/node-0000/gpu-0: no such key: size"},
		{"fails on some", number + ` == 5 && device.attributes["gpu.example.com"].size > 1`, small, "fails on 2 of 200 devices"},
		{"does not compile", "what(", small, ""},
		{"needle in a haystack", number + " == 99 && device.driver != ''", large, ""},
		{"not in a haystack", number + " == 100", large, "the selectors match none of the 5000 devices"},
		{"fails in a sample", `device.attributes["gpu.example.com"].size > 1`, large, "fails on 5000 of 5000 devices"},
		{"fails where a sample looks", number + ` == 3 || device.attributes["gpu.example.com"].size > 1`, large, "devices (a sample: 5000 exist)"},
		{"of a class that is not there", "true", &Objects{}, ""},
	} {
		errs := live(asking(test.expression), Conditions{ClusterView: test.clusterView})
		if (test.want == "") != (len(errs) == 0) || test.want != "" && !strings.Contains(errs[0].Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, errs, test.want)
		}
	}
}

// TestAlternatives: that one alternative matches nothing is what the list is for, while another matches.
func TestAlternatives(t *testing.T) {
	small := liveWorld(2)
	none, some := number+" > 100", number+" > 97"
	for _, test := range []struct {
		alternatives []string
		want         int
	}{
		{[]string{none, some}, 0}, {[]string{some, none}, 0}, {[]string{none, none}, 2}, {[]string{none}, 1},
		{[]string{`device.attributes["gpu.example.com"].size > 1`, some}, 1}, // it fails, and the scheduler stops there
	} {
		claim := asking()
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu"}, {Name: "other", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
		for i, expression := range test.alternatives {
			claim.Spec.Devices.Requests[0].FirstAvailable = append(claim.Spec.Devices.Requests[0].FirstAvailable,
				resourceapi.DeviceSubRequest{Name: fmt.Sprint("a", i), DeviceClassName: "gpu", Selectors: selecting(expression)})
		}
		if errs := live(claim, Conditions{ClusterView: small}); len(errs) != test.want {
			t.Errorf("%q: %v, want %d", test.alternatives, errs, test.want)
		}
	}
}

// TestBeforeTheDriver: a class and its claims come before the driver has published a slice.
func TestBeforeTheDriver(t *testing.T) {
	small := liveWorld(2)
	for expression, want := range map[string]int{
		`device.driver == "new.example.com"`:                            0,
		`device.driver == "` + liveDriver + `" && ` + number + " > 100": 1,
		number + " > 100": 1,
	} {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: resourceapi.DeviceClassSpec{Selectors: selecting(expression)}}
		if errs := classSelectorDevices(class, Pass{Conditions: Conditions{ClusterView: small}}); len(errs) != want {
			t.Errorf("class %s: %v, want %d", expression, errs, want)
		}
		small.Add(class)
		claim := asking()
		claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "new"
		if errs := live(claim, Conditions{ClusterView: small}); len(errs) != want {
			t.Errorf("claim of %s: %v, want %d", expression, errs, want)
		}
	}
}

// TestEvaluationsBound: no more evaluations than allowed, and the finding says so; what
// is remembered costs none.
func TestEvaluationsBound(t *testing.T) {
	clusterView := liveWorld(maxEvaluations/100/2 + 1) // a class and a selector for each device
	c := Conditions{ClusterView: clusterView, Evaluations: &Evaluations{}}
	errs := live(asking(number+" == 100"), c)
	if len(errs) == 0 || !strings.Contains(errs[0].Error(), "(not fully evaluated: 5100 exist)") {
		t.Fatalf("got %v", errs)
	}
	if errs = live(asking(number+" == 100"), c); len(errs) != 1 || !strings.Contains(errs[0].Error(), "the selectors match none of the 5100 devices of the class gpu") ||
		strings.Contains(errs[0].Error(), "not fully") {
		t.Errorf("the second time: %v", errs)
	}
}

// turnsOf gives some turns, which end at once if they are short.
type turnsOf struct {
	left  int
	short bool
	given *int
}

func (s *turnsOf) Take() (context.Context, func(), bool) {
	if s.left == 0 {
		return nil, nil, false
	}
	s.left--
	*s.given++
	ctx, cancel := context.WithCancel(context.Background())
	if s.short {
		cancel()
	}
	return ctx, func() { cancel(); *s.given-- }, true
}

// TestNoTurn: without time nothing is said but that, and every turn is given back.
func TestNoTurn(t *testing.T) {
	given := 0
	for name, turns := range map[string]*turnsOf{"none": {given: &given}, "ended": {left: 1, short: true, given: &given}} {
		claim := asking(number + " == 100")
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, claim.Spec.Devices.Requests[0])
		errs := live(claim, Conditions{ClusterView: liveWorld(1), Limiter: turns})
		if len(errs) != 1 || errs[0].Field != "spec.devices.requests" || !strings.Contains(errs[0].Detail, "not fully evaluated: the selectors of 2 of 2 requests") {
			t.Errorf("%s: %v", name, errs)
		}
	}
	errs := live(asking(number+" == 100"), Conditions{ClusterView: liveWorld(1), Limiter: &turnsOf{left: 1, given: &given}})
	if len(errs) != 1 || given != 0 {
		t.Errorf("with one turn: %v; %d turns are not given back", errs, given)
	}
}

// TestChangedSlice: a slice that changes is looked at again, all others are not.
func TestChangedSlice(t *testing.T) {
	given := 0
	clusterView := liveWorld(1)
	c := Conditions{ClusterView: clusterView, Evaluations: &Evaluations{}, Limiter: &turnsOf{left: 1, given: &given}}
	if errs := live(asking(number+" == 99"), c); len(errs) > 0 {
		t.Fatal(errs)
	}
	if errs := live(asking(number+" == 99"), c); len(errs) > 0 { // there is no turn left
		t.Errorf("forgotten: %v", errs)
	}
	clusterView.Add(liveSlice("node-0000", 99))
	c.Limiter = nil
	if errs := live(asking(number+" == 99"), c); len(errs) != 1 {
		t.Errorf("the change was not seen: %v", errs)
	}
}

// TestTogether evaluates in many goroutines at once.
func TestTogether(t *testing.T) {
	c := Conditions{ClusterView: liveWorld(5), Evaluations: &Evaluations{}}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if errs := live(asking(fmt.Sprintf("%s == %d", number, 98+i%4)), c); (len(errs) > 0) != (i%4 > 1) {
				t.Error(i, errs)
			}
		})
	}
	group.Wait()
}

// costly takes as long as an expression may, for nothing.
func costly(i int) string {
	const list = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]"
	return fmt.Sprintf("%s.all(a, %s.all(b, %s.all(c, a+b+c+%d > 0)))", list, list, list, i)
}

func BenchmarkSelectorDevices(b *testing.B) {
	for _, nodes := range []int{1, 50} {
		for name, remembered := range map[string]*Evaluations{"new": nil, "remembered": {}} {
			b.Run(fmt.Sprintf("%s/devices=%d", name, nodes*100), func(b *testing.B) {
				c := Conditions{ClusterView: liveWorld(nodes), Evaluations: remembered}
				claim := asking(number+" >= 0", "device.driver != ''")
				for b.Loop() {
					live(claim, c)
				}
			})
		}
	}
	b.Run("costly", func(b *testing.B) {
		c := Conditions{ClusterView: liveWorld(1)}
		for b.Loop() {
			live(asking(costly(1)), c)
		}
	})
}
