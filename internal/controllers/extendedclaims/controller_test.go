package extendedclaims_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedclaims"
)

// slipped is a pod with the claim that the scheduler created for it.
func slipped(name string) (*corev1.Pod, *resourceapi.ResourceClaim) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name + "-extended", RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "container-0-request-0"}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name + "-extended", UID: types.UID("claim-" + name),
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}}}
	return pod, claim
}

var refusal = extendedclaims.Refusal{Code: "DRA-CLAIM-003", Text: "spec.devices.requests[container-0-request-0].exactly.count: ask for at most 2"}

func TestDecide(t *testing.T) {
	pod, claim := slipped("trainer")
	if event := extendedclaims.Decide(pod, claim.Name, nil, metav1.Now()); event != nil {
		t.Errorf("nothing is refused: %+v", event)
	}
	event := extendedclaims.Decide(pod, claim.Name, []extendedclaims.Refusal{refusal, {Code: "DRA-CLAIM-004"}}, metav1.Now())
	const want = "DRA-CLAIM-003 refuses the claim trainer-extended for the extended resources of this pod: resources.requests[example.com/gpu] of container main.exactly.count: ask for at most 2 (and 1 more). " +
		"Unless its author is exempt or the rule is newer than the pod, the webhook did not check the pod: delete it, and create it with resources that are allowed"
	if event.Message != want {
		t.Errorf("got  %s\nwant %s", event.Message, want)
	}
	if event.Reason != extendedclaims.Reason || event.InvolvedObject.UID != pod.UID || event.Type != corev1.EventTypeWarning {
		t.Errorf("%+v", event)
	}
	long := extendedclaims.Decide(pod, claim.Name, []extendedclaims.Refusal{{Code: "X", Text: strings.Repeat("ü", 2000)}}, metav1.Now())
	if len(long.Message) > 1024 || !strings.HasSuffix(long.Message, "that are allowed") {
		t.Errorf("%d bytes: %s", len(long.Message), long.Message)
	}
}

// TestBelongs: an annotation alone does not make a claim one of the scheduler's.
func TestBelongs(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Pod, *resourceapi.ResourceClaim)
		want   bool
	}{
		"of the scheduler":      {func(*corev1.Pod, *resourceapi.ResourceClaim) {}, true},
		"without an annotation": {func(_ *corev1.Pod, c *resourceapi.ResourceClaim) { c.Annotations = nil }, false},
		"of another pod":        {func(p *corev1.Pod, _ *resourceapi.ResourceClaim) { p.UID = "other" }, false},
		"not in the status":     {func(p *corev1.Pod, _ *resourceapi.ResourceClaim) { p.Status.ExtendedResourceClaimStatus = nil }, false},
	} {
		pod, claim := slipped("trainer")
		tt.change(pod, claim)
		if got := extendedclaims.Belongs(claim, pod); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestOncePerPod: a pod has one event, also after errors, changes of the pod and a restart.
func TestOncePerPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod, claim := slipped("trainer")
		good, fine := slipped("good")
		client := fake.NewClientset(pod, claim, good, fine)
		var turn sync.Mutex
		names, checks, fails := map[string]int{}, map[string]int{}, 2
		check := func(_ context.Context, claim *resourceapi.ResourceClaim) ([]extendedclaims.Refusal, error) {
			turn.Lock()
			defer turn.Unlock()
			checks[claim.Name]++
			if fails--; fails >= 0 {
				return nil, errors.New("policies were not evaluated")
			}
			if claim.Name == "good-extended" {
				return nil, nil
			}
			return []extendedclaims.Refusal{refusal}, nil
		}
		create := func(_ context.Context, event *corev1.Event) error {
			turn.Lock()
			defer turn.Unlock()
			if names[event.InvolvedObject.Name+" "+event.Name]++; names[event.InvolvedObject.Name+" "+event.Name] > 1 {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name)
			}
			return nil
		}
		for range 2 {
			ctx, stop := context.WithCancel(t.Context())
			factory := informers.NewSharedInformerFactory(client, 0)
			controller := extendedclaims.New(extendedclaims.Options{Pods: factory.Core().V1().Pods().Informer(), Claims: factory.Resource().V1().ResourceClaims().Informer(),
				Check: check, Create: create, Logger: logr.Discard()})
			factory.StartWithContext(ctx)
			ended := make(chan error)
			go func() { ended <- controller.Run(ctx) }()
			<-time.After(10 * time.Second)
			changed := pod.DeepCopy()
			changed.Status.Phase = corev1.PodRunning
			if _, err := client.CoreV1().Pods("ml").UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Second)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			factory.Shutdown()
		}
		if len(names) != 1 {
			t.Errorf("events: %v", names)
		}
		if most := checks["trainer-extended"] + checks["good-extended"]; most != 6 { // 2 in each run, and 2 failures
			t.Errorf("checked %v", checks)
		}
	})
}
