package review_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestUnknownFields: an older API server does not read what its minor does not know, so
// it may hold anything there; what it knows it has to be able to read.
func TestUnknownFields(t *testing.T) {
	for _, test := range []struct {
		kind, object string
		minor        int
		readable     bool
	}{
		{"ResourceSlice", `{"spec":{"skipNodeOperations":1,"devices":[{"name":"a","attributes":{"b":{"ints":"c"}}}]}}`, 35, true},
		{"ResourceSlice", `{"spec":{"skipNodeOperations":1,"devices":[{"name":"a","attributes":{"b":{"ints":"c"}}}]}}`, 36, false},
		{"ResourceSlice", `{"spec":{"skipNodeOperations":1,"devices":"a"}}`, 36, false},
		{"ResourceSlice", `{"spec":{"skipNodeOperations":1}}`, 36, true},
		{"ResourceSlice", `{"spec":{"skipNodeOperations":1}}`, 37, false},
		{"ResourceClaim", `{"spec":{"devices":{"requests":[{"exactly":{"derivedAttributes":1}},{"firstAvailable":[{"derivedAttributes":{}}]}]}}}`, 36, true},
		{"ResourceClaim", `{"spec":{"devices":{"requests":[{"exactly":{"derivedAttributes":1}}]}}}`, 37, false},
		{"DeviceTaintRule", `{"status":true}`, 34, true},
		{"DeviceTaintRule", `{"status":true}`, 35, false},
	} {
		r := review.Reviewer{Profile: apiserver.Profile{Minor: test.minor}}
		_, err := r.Server(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind(test.kind), Object: []byte(test.object)})
		if (err == nil) != test.readable || err != nil && !strings.Contains(err.Error(), "is no v1."+test.kind) {
			t.Errorf("1.%d, %s: %v; readable should be %t", test.minor, test.object, err, test.readable)
		}
	}
}
