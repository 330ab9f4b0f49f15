package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// publishedSlice is a slice of a driver as JSON.
func publishedSlice(t *testing.T, driver string, change func(*resourceapi.ResourceSlice)) []byte {
	t.Helper()
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: driver, NodeName: new("node-1"),
		Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "gpu-0"}}}}
	slice.Name = "slice"
	if change != nil {
		change(slice)
	}
	data, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSliceAuthors is an attack: the identity of one driver publishes for another one.
func TestSliceAuthors(t *testing.T) {
	const gpu, net = "system:serviceaccount:gpu:driver", "system:serviceaccount:net:driver"
	r, err := review.New(v1alpha1.StewardConfiguration{Drivers: map[string]v1alpha1.Driver{"named.example.com": {Users: []string{gpu, net}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.InCluster, r.SliceAuthors = true, &review.SliceAuthors{}
	plain := func(driver string) []byte { return publishedSlice(t, driver, nil) }
	tainted := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/x", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	})
	merged := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("1Gi")}}
	})
	for _, step := range []struct {
		what, user  string
		object, old []byte
		dryRun      bool
		warns       bool
	}{
		{"a dry run is no experience", net, plain("gpu.example.com"), nil, true, false},
		{"patches are merged into it", "system:serviceaccount:dra-steward:controller", merged, plain("gpu.example.com"), false, false},
		{"a component", "system:kube-controller-manager", plain("gpu.example.com"), nil, false, false},
		{"the driver", gpu, plain("gpu.example.com"), nil, false, false},
		{"the driver again", gpu, tainted, plain("gpu.example.com"), false, false},
		{"another driver creates", net, plain("gpu.example.com"), nil, false, true},
		{"another driver taints", net, tainted, plain("gpu.example.com"), false, true},
		{"and again", net, tainted, plain("gpu.example.com"), false, true},
		{"the driver after that", gpu, plain("gpu.example.com"), nil, false, false},
		{"patches are merged again", "system:serviceaccount:dra-steward:controller", merged, plain("gpu.example.com"), false, false},
		{"a driver on a node", "system:node:node-1", plain("node.example.com"), nil, false, false},
		{"the same on another node", "system:node:node-2", plain("node.example.com"), nil, false, false},
		{"one identity of a named driver", gpu, plain("named.example.com"), nil, false, false},
		{"another one", net, plain("named.example.com"), nil, false, false},
	} {
		answer, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: step.object, Old: step.old,
			User: who(step.user), DryRun: step.dryRun, Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(answer.Findings)
		if warns := strings.Contains(said, "slice-author-changed"); warns != step.warns || answer.Denied() {
			t.Errorf("%s: denied %v, %s", step.what, answer.Denied(), said)
		}
	}
}

// TestSliceAuthorsAreBounded: names of drivers are bounded, and those that were seen first stay.
func TestSliceAuthorsAreBounded(t *testing.T) {
	r := review.Reviewer{InCluster: true, SliceAuthors: &review.SliceAuthors{}}
	for n := range 2000 {
		if _, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), User: who("jane"), Now: time.Unix(1_800_000_000, 0),
			Object: publishedSlice(t, fmt.Sprintf("driver-%d.example.com", n), nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if first, last := r.SliceAuthors.First("driver-0.example.com"), r.SliceAuthors.First("driver-1999.example.com"); first != "jane" || last != "" {
		t.Errorf("first %q, last %q", first, last)
	}
}
