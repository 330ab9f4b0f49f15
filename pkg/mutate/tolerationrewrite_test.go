package mutate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// randomClaim has few names and keys, so that lists meet their like.
func randomClaim(r *rand.Rand) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", Namespace: pick(r, "team-a", "team-b"), Finalizers: []string{resourceapi.Finalizer},
	}}
	if r.IntN(2) == 0 {
		claim.Annotations = map[string]string{"example.com/owner": "ana"}
	}
	for i := range r.IntN(4) {
		request := resourceapi.DeviceRequest{Name: pick(r, fmt.Sprintf("request-%d", i), "gpu", "")}
		class := func() string { return pick(r, "gpu.example.com", "nic.example.com") }
		if r.IntN(3) > 0 {
			request.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: class(), Tolerations: randomTolerations(r)}
		} else {
			for j := range r.IntN(3) {
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
					Name: fmt.Sprintf("alternative-%d", j), DeviceClassName: class(), Tolerations: randomTolerations(r),
				})
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

func randomTolerations(r *rand.Rand) (list []resourceapi.DeviceToleration) {
	for range pick(r, 0, 1, 3, 9, 15, 16, 17) {
		list = append(list, resourceapi.DeviceToleration{
			Key: pick(r, "", "example.com/a", "example.com/b"), Operator: pick(r, "", resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists),
			Effect: pick(r, "", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute), TolerationSeconds: randomSeconds(r),
		})
	}
	return list
}

func randomSeconds(r *rand.Rand) *int64 {
	return pick(r, nil, new(int64(0)), new(int64(60)), new(int64(7200)), new(int64(-1)))
}

func randomSite(r *rand.Rand) *v1alpha1.Tolerations {
	if r.IntN(6) == 0 {
		return nil
	}
	site := &v1alpha1.Tolerations{ExpandEmptyEffect: r.IntN(2) == 0}
	for range r.IntN(3) {
		rule := v1alpha1.TolerationRule{
			Namespaces: pick(r, nil, []string{"team-a"}), DeviceClasses: pick(r, nil, []string{"gpu.example.com"}),
			Users: pick(r, nil, nil, []string{"ana"}), Groups: pick(r, nil, nil, []string{"admins"}),
			MaxSeconds: pick(r, nil, new(int64(60)), new(int64(3600))), DefaultSeconds: pick(r, nil, new(int64(30))),
		}
		for range r.IntN(3) {
			rule.Add = append(rule.Add, resourceapi.DeviceToleration{
				Key: pick(r, "example.com/a", "example.com/c"), Operator: resourceapi.DeviceTolerationOpExists,
				Effect: pick(r, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute),
			})
		}
		site.Rules = append(site.Rules, rule)
	}
	return site
}

// write gives claim to the defaults and returns what would be stored.
func write(t *testing.T, claim, old *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) (*resourceapi.ResourceClaim, mutate.Result) {
	t.Helper()
	after := claim.DeepCopy()
	result, err := mutate.ResourceClaim().Apply(mutate.Write[resourceapi.ResourceClaim]{
		Object: after, Old: func() (*resourceapi.ResourceClaim, error) { return old, nil }, Now: writeTime, Author: author,
	}, mutate.Settings{Tolerations: site})
	if err != nil {
		t.Fatal(err)
	}
	return after, result
}

// everyClaim runs property on random claims, settings and authors, each time with the
// number that makes it again.
func everyClaim(t *testing.T, property func(t *testing.T, r *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author)) {
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		author := mutate.Author{User: pick(r, "ana", "bob"), Groups: pick(r, nil, []string{"admins"})}
		claim, site := randomClaim(r), randomSite(r)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { property(t, r, claim, site, author) })
		if t.Failed() {
			return
		}
	}
}

// TestRewriteTwice: the API server may call a second time for the same write, and the
// patch must lead to the object that the rules see.
func TestRewriteTwice(t *testing.T) {
	everyClaim(t, func(t *testing.T, _ *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		once, result := write(t, claim, nil, site, author)
		twice, again := write(t, once, nil, site, author)
		if diff := cmp.Diff(once, twice); diff != "" || len(again.Changes) > 0 {
			t.Errorf("the second time: -once +twice\n%s", diff)
		}
		checkPatch(t, claim, once, result)
	})
}

// TestRewriteKeepsWithinLimits: no list that was short enough becomes too long.
func TestRewriteKeepsWithinLimits(t *testing.T) {
	everyClaim(t, func(t *testing.T, _ *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		after, _ := write(t, claim, nil, site, author)
		for i, request := range after.Spec.Devices.Requests {
			if request.Exactly == nil {
				continue
			}
			was, is := len(claim.Spec.Devices.Requests[i].Exactly.Tolerations), len(request.Exactly.Tolerations)
			if is > max(was, resourceapi.DeviceTolerationsMaxLength) {
				t.Errorf("request %d: %d tolerations of %d", i, is, was)
			}
		}
	})
}

// TestNoneIsLonger: whatever the author writes, a toleration of NoExecute taints ends within
// maxSeconds, or the author reads why nothing was changed.
func TestNoneIsLonger(t *testing.T) {
	everyClaim(t, func(t *testing.T, _ *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		after, result := write(t, claim, nil, site, author)
		if len(result.Warnings) > 0 {
			return
		}
		for _, request := range after.Spec.Devices.Requests {
			if request.Exactly == nil || slices.Contains([]string{"", "gpu"}, request.Name) || len(request.Exactly.Tolerations) > resourceapi.DeviceTolerationsMaxLength {
				continue // without a unique name, or in a list that the rules refuse, nothing is changed
			}
			limit := mutate.MaxTolerationSeconds(site, request.Exactly.DeviceClassName, claim.Namespace, author)
			for _, toleration := range request.Exactly.Tolerations {
				ends := toleration.Effect == resourceapi.DeviceTaintEffectNoExecute && toleration.TolerationSeconds != nil
				if limit != nil && toleration.Effect != resourceapi.DeviceTaintEffectNoSchedule && (!ends || *toleration.TolerationSeconds > *limit) {
					t.Errorf("request %s: %+v does not end within %d seconds", request.Name, toleration, *limit)
				}
			}
		}
	})
}

// TestAppliedAgain: a manifest that is applied again results in what is stored, also
// without our annotation, by another user, and after the settings have changed.
func TestAppliedAgain(t *testing.T) {
	everyClaim(t, func(t *testing.T, r *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		stored, _ := write(t, claim, nil, site, author)
		for name, incoming := range map[string]*resourceapi.ResourceClaim{"manifest": claim, "what is stored": stored} {
			other := incoming.DeepCopy()
			if r.IntN(2) == 0 {
				delete(other.Annotations, v1alpha1.TolerationsAnnotation)
			}
			after, result := write(t, other, stored, randomSite(r), mutate.Author{User: "eve"})
			if diff := cmp.Diff(stored, after, cmp.Transformer("annotations", func(m map[string]string) string { return fmt.Sprint(m) })); diff != "" {
				t.Errorf("%s: -stored +after\n%s", name, diff)
			}
			checkPatch(t, other, after, result)
		}
	})
}

// appended is a claim after another webhook has given its lists a toleration that they lack.
func appended(claim *resourceapi.ResourceClaim, toleration resourceapi.DeviceToleration) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	add := func(list []resourceapi.DeviceToleration) []resourceapi.DeviceToleration {
		has := slices.ContainsFunc(list, func(t resourceapi.DeviceToleration) bool { return t.Key == toleration.Key })
		if has || len(list) >= resourceapi.DeviceTolerationsMaxLength {
			return list
		}
		return append(list, toleration)
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil {
			request.Exactly.Tolerations = add(request.Exactly.Tolerations)
		}
		for j := range request.FirstAvailable {
			request.FirstAvailable[j].Tolerations = add(request.FirstAvailable[j].Tolerations)
		}
	}
	return claim
}

// TestAppliedAgainWithAnotherWebhook: the API server calls again after another webhook has appended a toleration.
// The same manifest still results in what is stored, and so does what we were called with the second time.
func TestAppliedAgainWithAnotherWebhook(t *testing.T) {
	everyClaim(t, func(t *testing.T, r *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		toleration := resourceapi.DeviceToleration{Key: "example.com/theirs", Operator: resourceapi.DeviceTolerationOpExists,
			Effect: pick(r, "", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute)}
		admitted := func(claim, old *resourceapi.ResourceClaim) (after, between *resourceapi.ResourceClaim) {
			once, _ := write(t, claim, old, site, author)
			between = appended(once, toleration)
			after, _ = write(t, between, old, site, author)
			return after, between
		}
		stored, between := admitted(claim, nil)
		for name, incoming := range map[string]*resourceapi.ResourceClaim{"manifest": claim, "between": between, "what is stored": stored} {
			after, _ := admitted(incoming, stored)
			if diff := cmp.Diff(stored, after); diff != "" {
				t.Errorf("%s: -stored +after\n%s", name, diff)
			}
		}
	})
}

// TestOtherChangesAreNotHidden: what the API server refuses it must see.
func TestOtherChangesAreNotHidden(t *testing.T) {
	site := &v1alpha1.Tolerations{ExpandEmptyEffect: true}
	claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{Tolerations: []resourceapi.DeviceToleration{{Key: "example.com/a", Operator: "Exists"}}},
	}}}}}
	stored, _ := write(t, claim, nil, site, mutate.Author{})
	changed := claim.DeepCopy()
	changed.Spec.Devices.Requests[0].Exactly.Tolerations[0].Key = "example.com/b"
	after, _ := write(t, changed, stored, site, mutate.Author{})
	if diff := cmp.Diff(changed.Spec, after.Spec); diff != "" {
		t.Errorf("-written +after\n%s", diff)
	}
	twice := appended(stored, resourceapi.DeviceToleration{Key: "example.com/theirs", Operator: "Exists"})
	if twice, _ = write(t, twice, nil, site, mutate.Author{}); !strings.Contains(twice.Annotations[v1alpha1.TolerationsAnnotation], `"earlier"`) {
		t.Errorf("no record of the list before another webhook: %s", twice.Annotations)
	}
	twice.Annotations[v1alpha1.TolerationsAnnotation] = strings.ReplaceAll(twice.Annotations[v1alpha1.TolerationsAnnotation], `"earlier":{"gpu":[{"key":"example.com/a"`, `"earlier":{"gpu":[{"key":"example.com/b"`)
	if after, result := write(t, changed, twice, site, mutate.Author{}); len(result.Warnings) != 1 || cmp.Diff(changed.Spec, after.Spec) != "" {
		t.Errorf("a damaged earlier list: %v, warnings %v; want a warning", after.Spec, result.Warnings)
	}
	damaged := stored.DeepCopy()
	damaged.Annotations[v1alpha1.TolerationsAnnotation] = strings.Replace(damaged.Annotations[v1alpha1.TolerationsAnnotation], "example.com/a", "example.com/z", 1)
	if _, result := write(t, claim, damaged, site, mutate.Author{}); len(result.Changes) > 1 || len(result.Warnings) != 1 {
		t.Errorf("a damaged record: changes %v, warnings %v; want a warning", result.Changes, result.Warnings)
	}
}

// TestComponentsAreLeftAlone: what the claim controller copies was checked when its author
// wrote the template.
func TestComponentsAreLeftAlone(t *testing.T) {
	everyClaim(t, func(t *testing.T, _ *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, _ mutate.Author) {
		want, _ := write(t, claim, nil, nil, mutate.Author{})
		got, _ := write(t, claim, nil, site, mutate.Author{Component: true})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTolerationSettings(t *testing.T) {
	for problem, site := range map[string]v1alpha1.Tolerations{
		"rules[0]: Required value: changes nothing":              {Rules: []v1alpha1.TolerationRule{{Namespaces: []string{"a"}}}},
		"rules[0].maxSeconds: Invalid value: -1":                 {Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(-1))}}},
		"rules[0].defaultSeconds: Invalid value: 2: must not be": {Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(1)), DefaultSeconds: new(int64(2))}}},
		"rules[0].add[0].key":                                    {Rules: []v1alpha1.TolerationRule{{Add: []resourceapi.DeviceToleration{{Operator: "Exists", Effect: "NoSchedule"}}}}},
		"rules[0].add[0].operator":                               {Rules: []v1alpha1.TolerationRule{{Add: []resourceapi.DeviceToleration{{Key: "a", Operator: "In", Effect: "NoSchedule"}}}}},
		"rules[0].add[0].value":                                  {Rules: []v1alpha1.TolerationRule{{Add: []resourceapi.DeviceToleration{{Key: "a", Operator: "Exists", Value: "x"}}}}},
		"rules[0].add[0].effect":                                 {Rules: []v1alpha1.TolerationRule{{Add: []resourceapi.DeviceToleration{{Key: "a"}}}}},
		"rules[0].add[0].tolerationSeconds":                      {Rules: []v1alpha1.TolerationRule{{Add: []resourceapi.DeviceToleration{{Key: "a", Effect: "NoSchedule", TolerationSeconds: new(int64(1))}}}}},
		"rules[0].add: Too many: 17":                             {Rules: []v1alpha1.TolerationRule{{Add: make([]resourceapi.DeviceToleration, 17)}}},
	} {
		err := mutate.Settings{Tolerations: &site}.Validate()
		if of := (*field.Error)(nil); !errors.As(err, &of) || !strings.Contains(err.Error(), "defaults.tolerations."+problem) {
			t.Errorf("got %v, want an error of a field with %s", err, problem)
		}
	}
	all := mutate.Settings{Finalizer: "maybe", TimeAddedWindow: &metav1.Duration{Duration: -1}, Tolerations: &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(-1))}, {}}}}
	for _, part := range []string{"defaults.finalizer", "defaults.timeAddedWindow", "rules[0].maxSeconds", "rules[1]"} {
		if err := all.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an error with %s, too", err, part)
		}
	}
}

// TestPathsOfNumericNames: the place of a request, and of an alternative, whose name is a number is not taken for an index.
func TestPathsOfNumericNames(t *testing.T) {
	many := slices.Repeat([]resourceapi.DeviceToleration{{Key: "example.com/health", Operator: "Exists"}}, 9)
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "2", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "1", Tolerations: many}}}, {Name: "gpu"}, {}}
	result, err := mutate.ResourceClaim().Apply(mutate.Write[resourceapi.ResourceClaim]{Object: claim}, mutate.Settings{Tolerations: &v1alpha1.Tolerations{ExpandEmptyEffect: true}})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, w := range result.Warnings {
		paths = append(paths, w.Path)
	}
	if want := []string{"spec.devices.requests[name=2].firstAvailable[name=1].tolerations"}; !slices.Equal(paths, want) {
		t.Errorf("got %v, want %v", paths, want)
	}
}

// checkPatch applies the changes as the API server does.
func checkPatch(t *testing.T, before, want *resourceapi.ResourceClaim, result mutate.Result) {
	t.Helper()
	var got resourceapi.ResourceClaim
	unmarshal(t, patched(t, marshal(t, before), result), &got)
	if diff := cmp.Diff(string(marshal(t, want)), string(marshal(t, &got))); diff != "" {
		t.Errorf("the changes lead elsewhere than the object: -object +changes\n%s", diff)
	}
}

func marshal(t *testing.T, obj any) []byte {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unmarshal(t *testing.T, data []byte, obj any) {
	t.Helper()
	if err := json.Unmarshal(data, obj); err != nil {
		t.Fatal(err)
	}
}

// TestReplayedRecord is an attack: the record of another claim, to have its tolerations. A record
// in a new claim changes nothing, and one in a stored claim brings no list that is neither written
// nor stored.
func TestReplayedRecord(t *testing.T) {
	everyClaim(t, func(t *testing.T, r *rand.Rand, claim *resourceapi.ResourceClaim, site *v1alpha1.Tolerations, author mutate.Author) {
		other := randomClaim(r)
		recorded, _ := write(t, other, nil, &v1alpha1.Tolerations{ExpandEmptyEffect: true}, author)
		replay := func(to *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
			to = to.DeepCopy()
			if text, has := recorded.Annotations[v1alpha1.TolerationsAnnotation]; has {
				metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1alpha1.TolerationsAnnotation, text)
			}
			return to
		}
		want, _ := write(t, claim, nil, site, author)
		created, _ := write(t, replay(claim), nil, site, author)
		if diff := cmp.Diff(want.Spec, created.Spec); diff != "" {
			t.Errorf("created: -without +with the record\n%s", diff)
		}
		stored, incoming := replay(want), want.DeepCopy()
		incoming.Spec = *other.Spec.DeepCopy()
		after, _ := write(t, incoming, stored, site, author)
		plain, _ := write(t, incoming, nil, nil, author) // with the operators that are always filled in
		known := append(tolerationLists(stored), tolerationLists(plain)...)
		for _, list := range tolerationLists(after) {
			if !slices.ContainsFunc(known, func(k []resourceapi.DeviceToleration) bool { return cmp.Equal(k, list) }) {
				t.Errorf("updated: %+v is neither written nor stored", list)
			}
		}
	})
}

func tolerationLists(claim *resourceapi.ResourceClaim) (lists [][]resourceapi.DeviceToleration) {
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil {
			lists = append(lists, request.Exactly.Tolerations)
		}
		for _, alternative := range request.FirstAvailable {
			lists = append(lists, alternative.Tolerations)
		}
	}
	return lists
}
