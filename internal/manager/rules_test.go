package manager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// TestRuleStatusAfterAnUpgrade: a condition is written in the version that is served now; the version is
// asked for again only where a rule is not found.
func TestRuleStatusAfterAnUpgrade(t *testing.T) {
	served, exists, asked := "v1beta2", true, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch group := "/apis/resource.k8s.io/" + served; {
		case r.URL.Path == group:
			asked++
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"devicetaintrules"}]}`)
		case exists && r.URL.Path == group+"/devicetaintrules/broken/status":
			fmt.Fprintf(w, `{"kind":"DeviceTaintRule","apiVersion":"resource.k8s.io/%s","metadata":{"name":"broken"}}`, served)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s := &ruleStatus{config: &rest.Config{Host: server.URL}}
	write := func() error {
		return s.write(t.Context(), &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken", UID: "1"}}, metav1.Condition{Type: "x"})
	}
	for _, version := range []string{"v1beta2", "v1beta2", "v1", "v1"} {
		served = version
		if err := write(); err != nil {
			t.Errorf("%s is served: %v", version, err)
		}
	}
	if asked != 2 {
		t.Errorf("the API server was asked %d times", asked)
	}
	exists = false
	if err := write(); !apierrors.IsNotFound(err) || asked != 3 {
		t.Errorf("the rule is gone: %v, asked %d times", err, asked)
	}
}

// TestExpiryOfManyRules: rules that expire together are deleted at the rate of the controller's client, with one discovery, and
// no more once the replica does not lead.
func TestExpiryOfManyRules(t *testing.T) {
	var discoveries, deletions atomic.Int64
	deleted := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			deletions.Add(1)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
			deleted <- struct{}{}
			return
		}
		discoveries.Add(1)
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"resource.k8s.io/v1","resources":[{"name":"devicetaintrules","kind":"DeviceTaintRule"}]}`)
	}))
	defer server.Close()
	rules := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Resource().V1().DeviceTaintRules().Informer()
	for i := range 1000 {
		name := fmt.Sprint("rule-", i)
		if err := rules.GetStore().Add(&resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1",
			Annotations: map[string]string{v1alpha1.ExpiresAnnotation: time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}}}); err != nil {
			t.Fatal(err)
		}
	}
	e := &eviction{}
	e.evictor.Rules = rules
	if err := (Options{expireRules: true}).addExpiry(e, &rest.Config{Host: server.URL}, nil, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.controllers[0].Run(ctx) }()
	for range 150 { // more than the burst
		<-deleted
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := deletions.Load(); n > 152 || discoveries.Load() != 1 {
		t.Errorf("%d deletions, %d discoveries, want about 150 and 1", n, discoveries.Load())
	}
}
