package evictor_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"
)

// An apiServer answers what the controllers ask: pods are read, patched and deleted; all
// else is answered with what was sent.
type apiServer struct {
	*httptest.Server
	pods *feed
	// calls are those about pods and rules, events those that write events.
	calls, events, deleted atomic.Int64
	want                   atomic.Int64
	done                   chan time.Time
}

func newAPIServer(tb testing.TB, pods *feed, want int) *apiServer {
	s := &apiServer{pods: pods, done: make(chan time.Time, 1)}
	s.want.Store(int64(want))
	s.Server = httptest.NewServer(s)
	tb.Cleanup(s.Close)
	return s
}

// client is a real one, with a limit.
func (s *apiServer) client(tb testing.TB, qps float32, burst int) kubernetes.Interface {
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, QPS: qps, Burst: burst})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(r.URL.Path, "/events") {
		s.events.Add(1)
		_, _ = w.Write(body)
		return
	}
	s.calls.Add(1)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // api v1 namespaces NS pods NAME
	if len(parts) < 6 || parts[4] != "pods" {
		_, _ = fmt.Fprint(w, `{"kind":"DeviceTaintRule","apiVersion":"resource.k8s.io/v1","metadata":{"name":"rule"}}`)
		return
	}
	key := parts[3] + "/" + parts[5]
	object, exists, _ := s.pods.indexer.GetByKey(key)
	pod, _ := object.(*corev1.Pod)
	if !exists || pod == nil {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
		return
	}
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	if r.Method == http.MethodDelete {
		s.pods.remove(key)
		if s.deleted.Add(1) == s.want.Load() {
			s.done <- time.Now()
		}
	}
	_ = json.NewEncoder(w).Encode(pod)
}
