package clusterread

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestSurroundingsOnce: what Surroundings has read is visited without another list. A second call
// reads it again.
func TestSurroundingsOnce(t *testing.T) {
	lists := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") != "1" {
			lists[r.URL.Path]++
		}
		w.Header().Set("Content-Type", "application/json")
		next, name := "", "first"
		switch {
		case r.URL.Query().Get("limit") == "1" || r.URL.Path != "/apis/resource.k8s.io/v1/resourceslices":
		case r.URL.Query().Get("continue") == "":
			next = "second"
		default:
			lists[r.URL.Path]--
			name = "second"
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, "items": [{"metadata": {"name": %q}}]}`, next, name)
	}))
	defer server.Close()
	s, err := NewLister(&rest.Config{Host: server.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Rules = "v1"
	for times := 1; times <= 2; times++ {
		all, around, err := s.Surroundings(t.Context(), nil)
		if err != nil || !around.HasNamespace("first") {
			t.Fatal(around, err)
		}
		visited := map[string]int{}
		for _, l := range all {
			if err := s.Each(t.Context(), l, func(data []byte) error { visited[l.Kind]++; return nil }); err != nil {
				t.Fatal(err)
			}
			if got := lists[l.path("")]; got != times {
				t.Errorf("%s were listed %d times, want %d", l.Kind, got, times)
			}
		}
		if visited["ResourceSlice"] != 2 || visited["DeviceClass"] != 1 || visited["ResourceClaim"] != 1 {
			t.Errorf("visited %v, want both pages of slices and one of each other kind", visited)
		}
	}
}
