package review_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// FuzzServer asks what API servers of all minors would say of any bytes. Nothing panics,
// and the answer is the same twice.
func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[", `{"spec": 1, "status": []}`, `{"spec": {"devices": [{"attributes": {"a": {"ints": {}}}, "consumesCounters": null}, null]}}`,
		`{"spec": {"devices": {"requests": [{"exactly": {"derivedAttributes": 1}, "firstAvailable": {}}, null]}}}`,
	} {
		f.Add([]byte(seed), []byte(seed), uint8(0), false)
		f.Add([]byte(seed), []byte(`{"spec": {}}`), uint8(1), true)
		f.Add([]byte(seed), []byte(nil), uint8(3), true)
	}
	f.Fuzz(func(t *testing.T, object, old []byte, minor uint8, all bool) {
		profile := apiserver.Profile{Minor: apiserver.OldestMinor + int(minor)%(apiserver.NewestMinor-apiserver.OldestMinor+1), Gates: map[apiserver.Gate]bool{}}
		for _, gate := range apiserver.Gates() {
			profile.Gates[gate] = all
		}
		r := review.Reviewer{Profile: profile}
		for _, w := range written {
			req := request(w.version, w.kind, w.subresource, string(object), string(old))
			errs, err := r.Server(req)
			again, secondErr := r.Server(req)
			if diff := cmp.Diff(messages(errs), messages(again)); diff != "" || (err == nil) != (secondErr == nil) {
				t.Errorf("%v: another answer the second time: %v, %v\n%s", w, err, secondErr, diff)
			}
			if _, err := r.Review(req); err == nil && secondErr != nil && len(old) == 0 {
				t.Errorf("%v: reviewed, but the API server says %v", w, secondErr)
			}
		}
	})
}

func messages[E error](errs []E) (list []string) {
	for _, err := range errs {
		list = append(list, err.Error())
	}
	return list
}
