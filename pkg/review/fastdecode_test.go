package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// FuzzFastDecode: what fastDecode reads is what the decoder of API servers reads.
func FuzzFastDecode(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", " {} ", "{} {}", "[", `{"spec": null}`, "\xff", `{"metadata": {"name": "x", "name": "y"}}`, `{"Metadata": {"Name": "x"}}`,
		`{"metadata": {"name": "x", "finalizers": null, "labels": {"a": "b"}, "creationTimestamp": null, "deletionGracePeriodSeconds": 1.0, "generation": -0,
			"managedFields": [{"manager": "a", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:spec": {}}}, {"fieldsV1": null}]}, "status": {"allocation": {}}}`,
		`{"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1e2}, "nodeName": null, "devices": [{"name": "0", "attributes": {"a/b/c": {"ints": [1]}, "": {"string": "x", "bool": null, "version": "1.0.0"}},
			"capacity": {"c": {"value": "1e9"}, "d": {"value": 5}, "e": {"value": null}}, "taints": [{}, {"key": "a", "timeAdded": "2026-01-02T03:04:05Z"}, null]}]}}`,
		`{"spec": {"devices": {"requests": [{"name": "", "exactly": {"count": -1, "adminAccess": true, "tolerations": [{}, {"tolerationSeconds": 9223372036854775807}]}, "firstAvailable": [{}, {"count": 9223372036854775808}]}],
			"constraints": [{"matchAttribute": "a"}], "config": [{"opaque": {"driver": "d", "parameters": {"apiVersion": "v1", "kind":  "K"}}}, {"opaque": {"parameters": null}}]}}}`,
		`{"spec": {"spec": {"devices": {"requests": [{"exactly": {"count": 9223372036854775807, "allocationMode": "All"}}]}}}}`,
		`{"spec": {"taint": {"key": "a\ud800 \u0041", "value": "-", "effect": "Evict", "timeAdded": null}, "deviceSelector": {}}}`,
		`{"spec": {"selectors": [{"cel": {"expression": "true"}}], "config": [], "extendedResourceName": ""}, "unknown": {"a": [1, 2.5, null]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[resourceapi.ResourceClaim](t, data)
		same[resourceapi.ResourceClaimTemplate](t, data)
		same[resourceapi.ResourceSlice](t, data)
		same[resourceapi.DeviceClass](t, data)
		same[resourceapi.DeviceTaintRule](t, data)
	})
}

func same[T any](t *testing.T, data []byte) {
	t.Helper()
	got, want := new(T), new(T)
	if quantity.Scan(data, got) != nil || !fastDecode(data, got) {
		return
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, want); err != nil {
		t.Errorf("%T: fastDecode reads %q, the API server says %v", *got, data, err)
	} else if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("%T of %q: %s", *got, data, cmp.Diff(want, got))
	}
}
