package measure

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An idler is a webhook that admits everything. It reads the UID of a request only.
type idler struct {
	release *release
	address string
	asked   atomic.Int64
}

// admitAll serves such a webhook until the test ends.
func admitAll(t *testing.T, r *release) *idler {
	t.Helper()
	listener, err := net.Listen("tcp", loopback+":0")
	must(t, err)
	i := &idler{release: r, address: listener.Addr().String()}
	server := &http.Server{Handler: i}
	go func() {
		_ = server.ServeTLS(listener, filepath.Join(r.dir, "tls", "tls.crt"), filepath.Join(r.dir, "tls", "tls.key"))
	}()
	t.Cleanup(func() { server.Close() })
	return i
}

func (i *idler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	var review struct {
		Request struct {
			UID types.UID `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}}) // the API server reports what it lacks
}

// connect makes the API server call it for what the chart sends to the webhook.
func (i *idler) connect(t *testing.T) {
	t.Helper()
	i.release.callTo(t, i.address)
	before := i.asked.Load()
	eventually(t, "the webhook that admits all is asked", func(ctx context.Context) error {
		probe := claim("probe-")
		probe.Namespace = metav1.NamespaceDefault
		if err := i.release.client.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		if i.asked.Load() < before+2 {
			return errors.New("no request")
		}
		return nil
	})
}
