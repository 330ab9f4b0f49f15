package manager

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestSlipInAcknowledgement: an acknowledgement that cannot be read acknowledges nothing, and is in the way of nothing else.
func TestSlipInAcknowledgement(t *testing.T) {
	kept := &corev1.ConfigMap{Data: map[string]string{
		actSinceKey:                           "2026-03-04T05:06:07Z",
		"acknowledged-impact.gpu.example.com": "pods=120",
		"acknowledged-impact.nic.example.com": "pods<=5",
	}}
	said, unread, err := Options{}.readConfirmation(kept)
	if err != nil || unread == nil || said.ActSince.IsZero() {
		t.Errorf("%+v, %v, %v", said, unread, err)
	}
	if pods := said.Ceilings["nic.example.com"].Pods; len(said.Ceilings) != 1 || pods == nil || *pods != 5 {
		t.Errorf("%+v", said.Ceilings)
	}
	kept.Data[actSinceKey] = "yesterday"
	if _, _, err := (Options{}).readConfirmation(kept); err == nil {
		t.Error("a time that cannot be read is an error")
	}
}

// confirming is what reads the ConfigMap with a client.
func confirming(client *fake.Clientset) *eviction {
	return &eviction{options: Options{Mode: string(evictor.ModeFull), namespace: "dra-steward", Name: "controller"}, clients: clients{quiet: client}, log: logr.Discard()}
}

// TestFirstReplicas: of two replicas that start for the first time, each takes the time of the one that was faster.
func TestFirstReplicas(t *testing.T) {
	client := fake.NewClientset()
	const since = "2026-03-04T05:06:07Z"
	client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		faster := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dra-steward", Name: "controller"}, Data: map[string]string{actSinceKey: since}}
		return false, nil, client.Tracker().Add(faster)
	})
	said, err := confirming(client).confirmation(t.Context())
	if err != nil || said.ActSince.Format(time.RFC3339) != since {
		t.Errorf("%+v, %v", said, err)
	}
}

// TestReconfirm: a replica that becomes the leader reads what the admin has said since it started, and evicts nothing until it
// can.
func TestReconfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dra-steward", Name: "controller"},
			Data: map[string]string{actSinceKey: "2026-03-04T05:06:07Z", "acknowledged-impact.gpu.example.com": "pods<=5"}})
		away := 3
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			away--
			return away >= 0, nil, errors.New("the API server is away")
		})
		resource := informers.NewSharedInformerFactory(client, 0).Resource().V1()
		rules := resource.DeviceTaintRules().Informer()
		controller, err := evictor.New(evictor.Options{Rules: rules, Usage: &usage.Index{},
			Tracker: tracker.New(tracker.Options{Sources: tracker.Sources{Slices: resource.ResourceSlices().Informer(), Rules: rules}})})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		said, ok := confirming(client).reconfirm(t.Context(), controller)
		if !ok || len(said.Ceilings) != 1 || time.Since(begin) != 3*retryPeriod {
			t.Errorf("%+v, %t after %s", said, ok, time.Since(begin))
		}
		away = 3
		ended, end := context.WithCancel(t.Context())
		end()
		if _, ok := confirming(client).reconfirm(ended, controller); ok {
			t.Error("a replica that ends evicts")
		}
	})
}
