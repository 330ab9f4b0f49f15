package clusterwrite

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
)

// TestPauseWhileStatusIsWritten: a drain is paused although the controller writes its status
// between the read and the write.
func TestPauseWhileStatusIsWritten(t *testing.T) {
	writes := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPut {
			if writes++; writes == 1 {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: "the object has been modified"})
				return
			}
		}
		_ = json.NewEncoder(w).Encode(v1alpha1.DeviceDrain{TypeMeta: metav1.TypeMeta{Kind: v1alpha1.DeviceDrainKind, APIVersion: v1alpha1.APIVersion},
			ObjectMeta: metav1.ObjectMeta{Name: "firmware"}})
	}))
	defer server.Close()
	client, err := ownclient.NewDrainClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := Pause(t.Context(), client, "firmware", true, false); err != nil || writes != 2 {
		t.Errorf("%d writes, want 2: %v", writes, err)
	}
}

// TestPauseByHand: a reaction or a roll that has paused a drain does not let it go on after a person has paused it, too.
func TestPauseByHand(t *testing.T) {
	for _, paused := range []bool{true, false} {
		stored := v1alpha1.DeviceDrain{TypeMeta: metav1.TypeMeta{Kind: v1alpha1.DeviceDrainKind, APIVersion: v1alpha1.APIVersion},
			ObjectMeta: metav1.ObjectMeta{Name: "xid-gpu-3", Annotations: map[string]string{v1alpha1.PausedByAnnotation: "xid"}}, Spec: v1alpha1.DeviceDrainSpec{Paused: paused}}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPut {
				stored = v1alpha1.DeviceDrain{}
				if err := json.NewDecoder(r.Body).Decode(&stored); err != nil {
					t.Error(err)
				}
			}
			_ = json.NewEncoder(w).Encode(stored)
		}))
		defer server.Close()
		client, err := ownclient.NewDrainClient(&rest.Config{Host: server.URL})
		if err == nil {
			err = Pause(t.Context(), client, "xid-gpu-3", true, false)
		}
		if err != nil || !stored.Spec.Paused || stored.Annotations[v1alpha1.PausedByAnnotation] != "" {
			t.Errorf("paused before: %t: %v, paused %t, annotations %v", paused, err, stored.Spec.Paused, stored.Annotations)
		}
	}
}
