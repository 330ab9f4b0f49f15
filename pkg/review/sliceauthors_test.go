package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestSliceAuthorsOfPools is an attack after a restart of the webhook: the identity of another
// driver is the first that the webhook sees for a driver, and then writes into a pool in which
// the driver itself has published.
func TestSliceAuthorsOfPools(t *testing.T) {
	const gpu, net = "system:serviceaccount:gpu:driver", "system:serviceaccount:net:driver"
	r := review.Reviewer{InCluster: true, SliceAuthors: &review.SliceAuthors{}}
	in := func(pool string) []byte {
		return publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = pool })
	}
	other := publishedSlice(t, "net.example.com", nil)
	for _, step := range []struct {
		what, user string
		object     []byte
		says       string
	}{
		{"the attacker is the first", net, in("forged"), ""},
		{"the driver itself", gpu, in("node-1"), "spec.driver: Forbidden: " + net},
		{"the attacker in the pool of the driver", net, in("node-1"), "spec.pool.name: Forbidden: " + gpu + " has published in the pool so far, and not " + net},
		{"and again", net, in("node-1"), "spec.pool.name"},
		{"the attacker in the own pool", net, in("forged"), ""},
		{"a pool of the same name of another driver", net, other, ""},
	} {
		answer, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: step.object,
			User: who(step.user), Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, finding := range answer.Findings {
			if finding.Rule == "slice-author-changed" {
				said += finding.Path + ": " + finding.Message
			}
		}
		if (said == "") != (step.says == "") || !strings.Contains(said, step.says) || answer.Denied() {
			t.Errorf("%s: denied %v, %q, want %q", step.what, answer.Denied(), said, step.says)
		}
	}
}

// TestSliceAuthorsAreBounded: names of drivers and pools are bounded, and those that were seen
// first stay.
func TestSliceAuthorsAreBounded(t *testing.T) {
	r := review.Reviewer{InCluster: true, SliceAuthors: &review.SliceAuthors{}}
	publish := func(driver, pool string) {
		t.Helper()
		object := publishedSlice(t, driver, func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = pool })
		if _, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), User: who("jane"), Now: time.Unix(1_800_000_000, 0), Object: object}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2000 {
		publish(fmt.Sprintf("driver-%d.example.com", n), "node-1")
	}
	for n := range 33000 {
		publish("driver-0.example.com", fmt.Sprintf("pool-%d", n))
	}
	for at, want := range map[[2]string]string{
		{"driver-0.example.com", ""}:           "jane",
		{"driver-1999.example.com", ""}:        "",
		{"driver-0.example.com", "node-1"}:     "jane",
		{"driver-1999.example.com", "node-1"}:  "",
		{"driver-0.example.com", "pool-0"}:     "jane",
		{"driver-0.example.com", "pool-32999"}: "",
	} {
		if first := r.SliceAuthors.First(at[0], at[1]); first != want {
			t.Errorf("%s: first %q, want %q", at, first, want)
		}
	}
}

// TestKeepersOfSlices: the garbage collector and the migrator of storage versions are no driver of a slice. Their updates
// that keep what is published are stored, as those that orphan the slices of a Node. No other update is.
func TestKeepersOfSlices(t *testing.T) {
	const collector, migrator = "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:storage-version-migrator-controller"
	r, err := review.New(v1alpha1.StewardConfiguration{Drivers: map[string]v1alpha1.Driver{"gpu.example.com": {Users: []string{"system:serviceaccount:gpu:driver"}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.InCluster = true
	owned := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "u"}}
	})
	orphan := publishedSlice(t, "gpu.example.com", nil)
	annotated := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Annotations = map[string]string{"dra-steward.io/materialized": "{}"}
	})
	tainted := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/x", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	})
	// A field that only a newer API server has.
	newer := []byte(strings.Replace(string(orphan), `"driver":`, `"newer":"x","driver":`, 1))
	for _, step := range []struct {
		what, user  string
		object, old []byte
		denied      bool
	}{
		{"slices are orphaned", collector, orphan, owned, false},
		{"slices are stored again", migrator, owned, owned, false},
		{"another user orphans", "jane", orphan, owned, true},
		{"another account of the name", "system:serviceaccount:team:generic-garbage-collector", orphan, owned, true},
		{"a taint", collector, tainted, owned, true},
		{"a field that is not known", collector, newer, owned, true},
		{"the record of patches", collector, annotated, owned, true},
		{"a new slice", migrator, owned, nil, true},
	} {
		answer, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: step.object, Old: step.old, User: who(step.user), Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Denied() != step.denied || step.denied != strings.Contains(fmt.Sprint(answer.Findings), "slice-driver-author") {
			t.Errorf("%s: denied %v: %v", step.what, answer.Denied(), answer.Findings)
		}
	}
}

// TestPatchWriter: the user who has patches merged is no driver and on no node of a slice. Its updates that change
// attributes and capacity at most are stored, and those of no other user.
func TestPatchWriter(t *testing.T) {
	const writer, other = "system:serviceaccount:dra-steward:controller", "system:serviceaccount:net:driver"
	plain := publishedSlice(t, "gpu.example.com", nil)
	merged := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Annotations = map[string]string{"dra-steward.io/materialized": "{}"}
		s.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("a")}}
	})
	tainted := publishedSlice(t, "gpu.example.com", func(s *resourceapi.ResourceSlice) {
		s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/x", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	})
	for rule, c := range map[string]v1alpha1.StewardConfiguration{
		"slice-driver-author": {Drivers: map[string]v1alpha1.Driver{"gpu.example.com": {Users: []string{"system:serviceaccount:gpu:driver"}}}},
		"slice-node-author":   {Rules: map[string]v1alpha1.Rule{"slice-node-author": {Severity: "error"}}},
	} {
		r, err := review.New(c)
		if err != nil {
			t.Fatal(err)
		}
		r.InCluster, r.PatchWriter = true, writer
		for _, step := range []struct {
			what, user  string
			object, old []byte
			denied      bool
		}{
			{"patches are merged", writer, merged, plain, false},
			{"patches are taken out", writer, plain, merged, false},
			{"the driver has merged them already", writer, plain, plain, false},
			{"another user changes attributes", other, merged, plain, true},
			{"a taint", writer, tainted, plain, true},
			{"a new slice", writer, merged, nil, true},
		} {
			user := who(step.user)
			user.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {"node-2"}}
			answer, err := r.Validate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: step.object, Old: step.old, User: user, Now: time.Unix(1_800_000_000, 0)})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Denied() != step.denied || step.denied != strings.Contains(fmt.Sprint(answer.Findings), rule) {
				t.Errorf("%s, %s: denied %v: %v", rule, step.what, answer.Denied(), answer.Findings)
			}
		}
	}
}
