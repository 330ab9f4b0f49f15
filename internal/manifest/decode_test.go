package manifest_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// messages returns the problems as "line:column Kind path: message".
func messages(problems []manifest.Problem) (result []string) {
	for _, problem := range problems {
		result = append(result, fmt.Sprintf("%d:%d %s %v", problem.Line, problem.Column, problem.Kind, problem))
	}
	return result
}

func TestDecodeProblems(t *testing.T) {
	slice := func(rest string) string {
		return "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\n" + rest
	}
	for name, test := range map[string]struct {
		text    string
		decodes bool
		want    []string
	}{
		"nothing": {slice("spec: {driver: a}"), true, nil},
		"unknown fields": {slice("spec:\n  drivr: a\n  NodeName: b\n  colour: red\n  name: p\nmore: 1"), true, []string{
			`4:3 UnknownField spec.drivr: unknown field: did you mean "driver"?`,
			`5:3 UnknownField spec.NodeName: unknown field: did you mean "nodeName"?`,
			`6:3 UnknownField spec.colour: unknown field`,
			`7:3 UnknownField spec.name: unknown field: did you mean "pool.name"?`,
			`8:1 UnknownField more: unknown field`}},
		"one level higher": {slice("spec:\n  devices:\n  - name: a\n    basic: {attributes: {}}"), true, []string{
			`6:5 UnknownField spec.devices[0].basic: unknown field: write what is in it one level higher`}},
		"one level deeper": {"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nspec: {devices: {requests: [{name: a, count: 1}]}}", true, []string{
			`3:39 UnknownField spec.devices.requests[0].count: unknown field: did you mean "exactly.count"?`}},
		"duplicate keys": {slice("metadata:\n  labels:\n    a: b\n    a: c\nspec:\n  driver: a\n  pool: {name: a, name: b}\n  driver: b\n  driver: c"), true, []string{
			`6:5 DuplicateKey metadata.labels[a]: duplicate key, first in line 5, of which the last one applies: remove one`,
			`9:19 DuplicateKey spec.pool.name: duplicate key, first in line 9, of which the last one applies: remove one`,
			`10:3 DuplicateKey spec.driver: duplicate key, first in line 8, of which the last one applies: remove one`,
			`11:3 DuplicateKey spec.driver: duplicate key, first in line 8, of which the last one applies: remove one`}},
		"duplicate keys in JSON": {`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"labels": {"a": "b", "a": "c"}}, "kind": "ResourceSlice"}`, true, []string{
			`1:97 DuplicateKey metadata.labels[a]: duplicate key, first in line 1, of which the last one applies: remove one`,
			`1:109 DuplicateKey kind: duplicate key, first in line 1, of which the last one applies: remove one`}},
		"overridden merge is no duplicate": {slice("spec: &a\n  driver: a\n  pool: {name: a}\nstatus: 1\nmetadata:\n  labels:\n    <<: {a: b}\n    a: c"), true, []string{
			`6:1 UnknownField status: unknown field`}},
		"wrong types": {slice("metadata:\n  name: 5\n  labels: {a: yes}\n  finalizers: a\n  creationTimestamp: soon\nspec:\n  allNodes: maybe\n  pool: {generation: 1.5, resourceSliceCount: x}\n  devices: {name: a}"), false, []string{
			`4:3 WrongType metadata.name: must be a string, not the number 5: put it in quotes`,
			`5:12 WrongType metadata.labels[a]: must be a string, not the boolean true: put it in quotes`,
			`6:3 WrongType metadata.finalizers: must be a list, not a string: put "- " before it`,
			`7:3 WrongType metadata.creationTimestamp: must be a time such as 2026-01-31T12:00:00Z, not the string "soon"`,
			`9:3 WrongType spec.allNodes: must be true or false, not the string "maybe"`,
			`10:10 WrongType spec.pool.generation: must be a whole number of at most 64 bits, not the number 1.5`,
			`10:27 WrongType spec.pool.resourceSliceCount: must be a whole number of at most 64 bits, not the string "x"`,
			`11:3 WrongType spec.devices: must be a list, not an object: put "- " before it`}},
		"values without their object": {slice("spec:\n  devices:\n  - name: a\n    capacity: {memory: 40Gi, cores: 4, x: {value: much}}\n    attributes: {a: x, b: 1, c: true, d: []}"), false, []string{
			`6:16 WrongType spec.devices[0].capacity[memory]: must be an object, not a string: write {value: "40Gi"}`,
			`6:30 WrongType spec.devices[0].capacity[cores]: must be an object, not the number 4: write {value: 4}`,
			`6:44 WrongType spec.devices[0].capacity[x].value: must be a quantity such as 4 or 10Gi, not the string "much"`,
			`7:18 WrongType spec.devices[0].attributes[a]: must be an object, not a string: write {string: "x"}`,
			`7:24 WrongType spec.devices[0].attributes[b]: must be an object, not the number 1: write {int: 1}`,
			`7:30 WrongType spec.devices[0].attributes[c]: must be an object, not the boolean true: write {bool: true}`,
			`7:39 WrongType spec.devices[0].attributes[d]: must be an object, not a list`}},
		"quantity that would stall the decoder": {slice("spec:\n  devices:\n  - name: x\n    capacity: {a: {value: 1e-999999999}, b: {value: \"1e-999999999\"}, c: {value: 1e-3}}\nmore: 1"), false, []string{
			`6:46 WrongType spec.devices[0].capacity[b].value: must be a quantity such as 4 or 10Gi of a reasonable size, not the string "1e-999999999"`,
			`7:1 UnknownField more: unknown field`}},
		"hidden quantity that would stall": {`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","spec":{"devices":[{"name":"a","capacity":{"a":{"value":"1e-999999999","value":"1"}}}]}}`, false, []string{
			`1:1 WrongType cannot be decoded: spec.devices[0].capacity[a].value: Invalid value: "1e-999999999": must have an exponent between -999 and 999`,
			`1:130 DuplicateKey spec.devices[0].capacity[a].value: duplicate key, first in line 1, of which the last one applies: remove one`}},
		"very long quantity": {slice("spec: {devices: [{name: x, capacity: {a: {value: '" + strings.Repeat("1", 1_000_000) + "'}}}]}"), false, []string{
			`3:43 WrongType spec.devices[0].capacity[a].value: must be a quantity such as 4 or 10Gi of a reasonable size, not the string "` + strings.Repeat("1", 80) + `"`}},
		"text like a dangerous quantity": {slice("metadata: {labels: {a: '1e-999999999'}}"), true, nil},
		"everything at once": {slice("spec:\n  driver: [a]\n  drivers: a\n  driver: 5"), false, []string{
			`5:3 UnknownField spec.drivers: unknown field: did you mean "driver"?`,
			`6:3 WrongType spec.driver: must be a string, not the number 5: put it in quotes`,
			`6:3 DuplicateKey spec.driver: duplicate key, first in line 4, of which the last one applies: remove one`}},
		"unknown version": {"kind: ResourceClaim\napiVersion: resource.k8s.io/v1alpha3", false, []string{
			`2:1 UnknownVersion apiVersion: there is no version "v1alpha3" of ResourceClaim: it must be one of v1 (since 1.34), v1beta2 (1.33 until 1.39), v1beta1 (1.32 until 1.38)`}},
		"version of another kind": {"kind: DeviceTaintRule\napiVersion: resource.k8s.io/v1beta1", false, []string{
			`2:1 UnknownVersion apiVersion: there is no version "v1beta1" of DeviceTaintRule: it must be one of v1 (since 1.37), v1beta2 (1.36 until 1.42), v1alpha3 (1.33 until 1.39)`}},
		"unknown kind": {"apiVersion: resource.k8s.io/v1alpha2\nkind: PodSchedulingContext", false, []string{
			`2:1 UnknownKind kind: resource.k8s.io has no kind "PodSchedulingContext": it must be one of DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice`}},
		"another group": {"apiVersion: v1\nkind: Pod", false, []string{
			`1:1 UnknownKind apiVersion: must be of the group resource.k8s.io, not "v1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			object, problems := manifest.Decode(one(t, test.text))
			if (object != nil) != test.decodes {
				t.Errorf("got object %v", object)
			}
			if got := messages(problems); !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

func TestDecodeVersions(t *testing.T) {
	for _, version := range []string{"v1beta1", "v1beta2", "v1"} {
		basic, exactly := "", "exactly: "
		if version == "v1beta1" {
			basic = "basic: "
			exactly = ""
		}
		braces := func(key, fields string) string {
			if key == "" {
				return fields
			}
			return key + "{" + fields + "}"
		}
		head := "apiVersion: resource.k8s.io/" + version + "\nkind: "
		slice, problems := manifest.DecodeAs[*resourcev1.ResourceSlice](one(t, head+
			"ResourceSlice\nspec: {nodeName: node, devices: [{name: a, "+braces(basic, "taints: [{key: k, effect: NoExecute}], capacity: {m: {value: 1}}")+"}]}"))
		if problems != nil || slice.APIVersion != "resource.k8s.io/v1" || *slice.Spec.NodeName != "node" ||
			slice.Spec.Devices[0].Taints[0].Key != "k" || len(slice.Spec.Devices[0].Capacity) != 1 {
			t.Errorf("%s: got %+v, %v", version, slice, problems)
		}
		template, problems := manifest.DecodeAs[*resourcev1.ResourceClaimTemplate](one(t, head+
			"ResourceClaimTemplate\nspec: {spec: {devices: {requests: [{name: a, "+braces(exactly, "count: 2, deviceClassName: c")+"}]}}}"))
		if problems != nil || template.Kind != "ResourceClaimTemplate" || template.Spec.Spec.Devices.Requests[0].Exactly.Count != 2 {
			t.Errorf("%s: got %+v, %v", version, template, problems)
		}
	}
	for _, version := range []string{"v1alpha3", "v1beta2", "v1"} {
		rule, problems := manifest.DecodeAs[*resourcev1.DeviceTaintRule](one(t, "apiVersion: resource.k8s.io/"+version+
			"\nkind: DeviceTaintRule\nspec: {deviceSelector: {driver: d}, taint: {key: k, effect: None, timeAdded: '2026-01-31T12:00:00Z'}}"))
		if problems != nil || rule.APIVersion != "resource.k8s.io/v1" || *rule.Spec.DeviceSelector.Driver != "d" || rule.Spec.Taint.TimeAdded == nil {
			t.Errorf("%s: got %+v, %v", version, rule, problems)
		}
	}
}

func TestDecodeAsOther(t *testing.T) {
	claim, problems := manifest.DecodeAs[*resourcev1.ResourceClaim](one(t, "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice"))
	want := []string{`2:1 UnknownKind kind: must be what a *v1.ResourceClaim is made of, not "ResourceSlice"`}
	if got := messages(problems); claim != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %q", claim, got)
	}
}

// TestAlphaTaintRule guards the assumption that DeviceTaintRules look alike in
// v1alpha3 and v1beta2.
func TestAlphaTaintRule(t *testing.T) {
	var shape func(t reflect.Type) string
	shape = func(t reflect.Type) string {
		switch {
		case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
			return t.Kind().String() + " " + shape(t.Elem())
		case t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "k8s.io/api/resource/"):
			return t.Kind().String()
		}
		result := "{"
		for i := range t.NumField() {
			result += t.Field(i).Tag.Get("json") + ": " + shape(t.Field(i).Type) + "; "
		}
		return result + "}"
	}
	alpha, beta := shape(reflect.TypeFor[resourcev1alpha3.DeviceTaintRule]()), shape(reflect.TypeFor[resourcev1beta2.DeviceTaintRule]())
	if alpha != beta {
		t.Errorf("v1alpha3 is %s\nv1beta2 is %s", alpha, beta)
	}
}

func TestVersion(t *testing.T) {
	for _, test := range []struct {
		apiVersion, kind string
		ours             bool
		want             manifest.Version
	}{
		{"resource.k8s.io/v1", "ResourceClaim", true, manifest.Version{Name: "v1", Introduced: "1.34"}},
		{"resource.k8s.io/v1beta1", "ResourceClaim", true, manifest.Version{Name: "v1beta1", Introduced: "1.32", Deprecated: "1.35", Removed: "1.38", OffByDefault: true}},
		{"resource.k8s.io/v1alpha3", "DeviceTaintRule", true, manifest.Version{Name: "v1alpha3", Introduced: "1.33", Deprecated: "1.36", Removed: "1.39", OffByDefault: true}},
		{"resource.k8s.io/v2", "ResourceClaim", true, manifest.Version{}},
		{"resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", false, manifest.Version{}},
		{"v1", "ResourceClaim", true, manifest.Version{}},
		{"v1", "Pod", false, manifest.Version{}},
		{"gpu.example.com/v1", "ResourceClaim", false, manifest.Version{}},
		{"", "", false, manifest.Version{}},
	} {
		document := &manifest.Document{APIVersion: test.apiVersion, Kind: test.kind}
		version, known := document.Version()
		if version != test.want || known != (test.want != manifest.Version{}) || document.Ours() != test.ours {
			t.Errorf("%s %s: got %+v, %t, ours %t", test.apiVersion, test.kind, version, known, document.Ours())
		}
	}
}

// TestOtherGroupsOfKubernetes: a group below those of Kubernetes is meant to be ours, since no other has the kind.
func TestOtherGroupsOfKubernetes(t *testing.T) {
	for group, ours := range map[string]bool{"resource.kubernetes.io": true, "resources.k8s.io": true, "dra.k8s.io": true, "claims.example.com": false, "gpu.x-k8s.io": false} {
		for document, err := range (manifest.Reader{}).Read("a.yaml", strings.NewReader("apiVersion: "+group+"/v1\nkind: ResourceClaimTemplate\n")) {
			if err != nil || document.Ours() != ours {
				t.Errorf("%s: ours is %v, want %v, %v", group, document.Ours(), ours, err)
			}
		}
	}
}
