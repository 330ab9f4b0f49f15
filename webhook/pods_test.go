package webhook_test

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// podWorld has one pod, which holds a device.
type podWorld struct{ err error }

func (podWorld) Pod(namespace, name string) *corev1.Pod {
	if namespace != "ml" || name != "train" {
		return nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
}

func (w podWorld) ClaimsOf(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	if pod.Name != "train" {
		return nil, w.err
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpu"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"}}}}
	return []*resourceapi.ResourceClaim{claim}, w.err
}

// TestPodDeletions: which forced deletions are refused, which pass, and which pass because
// the claims are not known.
func TestPodDeletions(t *testing.T) {
	const force, train = `{"gracePeriodSeconds":0}`, `{"metadata":{"namespace":"ml","name":"train"},"spec":{"nodeName":"n1"}}`
	eviction := func(options string) string {
		return `{"metadata":{"namespace":"ml","name":"train"},"deleteOptions":` + options + `}`
	}
	for name, tt := range map[string]struct {
		site                              v1alpha1.StewardConfiguration
		user, pod, options, eviction, say string
		unread, refused                   bool
	}{
		"by force":            {user: "jane", pod: train, options: force, refused: true, say: "delete it without --force and --grace-period=0"},
		"ordinary":            {user: "jane", pod: train, options: `{}`},
		"by the collector":    {user: "system:serviceaccount:kube-system:pod-garbage-collector", pod: train, options: force},
		"by one who may":      {user: "jane", pod: train, options: force, site: v1alpha1.StewardConfiguration{ForceDeletion: v1alpha1.ForceDeletion{Users: []string{"jane"}}}},
		"where we only warn":  {user: "jane", pod: train, options: force, say: "gpu.example.com/n1/gpu-0", site: v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeWarn}},
		"where we observe":    {user: "jane", pod: train, options: force, site: v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve}},
		"without devices":     {user: "jane", pod: strings.Replace(train, "train", "web", 1), options: force},
		"pods are not read":   {user: "jane", pod: train, options: force, unread: true, say: "not read yet"},
		"no JSON":             {user: "jane", pod: "{", options: force, say: "cannot check whether the pod holds devices"},
		"eviction by force":   {user: "jane", eviction: eviction(force), refused: true, say: "with claim gpu"},
		"ordinary eviction":   {user: "jane", eviction: eviction(`null`)},
		"eviction of nothing": {user: "jane", eviction: strings.Replace(eviction(force), "train", "web", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := review.New(tt.site)
			if err != nil {
				t.Fatal(err)
			}
			world := podWorld{}
			if tt.unread {
				world.err = errors.New("not read yet")
			}
			h := webhook.PodDeletions(nil, world, webhook.Always(r), webhook.Options{})
			req := admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
				Operation: admissionv1.Delete, Namespace: "ml", Name: "train", UserInfo: authenticationv1.UserInfo{Username: tt.user},
				OldObject: runtime.RawExtension{Raw: []byte(tt.pod)}, Options: runtime.RawExtension{Raw: []byte(tt.options)},
			}
			if tt.eviction != "" {
				req.Operation, req.SubResource, req.Object = admissionv1.Create, "eviction", runtime.RawExtension{Raw: []byte(tt.eviction)}
				if strings.Contains(tt.eviction, "web") {
					req.Name = "web"
				}
			}
			response := h.Handle(t.Context(), admission.Request{AdmissionRequest: req})
			said := strings.Join(response.Warnings, "\n")
			if response.Result != nil {
				said += response.Result.Message
			}
			if response.Allowed == tt.refused || !strings.Contains(said, tt.say) || tt.say == "" && said != "" {
				t.Errorf("allowed is %v, said is %q, want %q", response.Allowed, said, tt.say)
			}
		})
	}
}

// TestPodDeletionsHandOn: what else is sent is for the next handler.
func TestPodDeletionsHandOn(t *testing.T) {
	next := webhook.Validating(webhook.Always(review.Reviewer{}), webhook.Options{})
	h := webhook.PodDeletions(next, podWorld{}, webhook.Always(review.Reviewer{}), webhook.Options{})
	for _, resource := range []string{"deviceclasses", "pods"} {
		response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
			Operation: admissionv1.Connect}})
		if !response.Allowed {
			t.Errorf("%s: %+v", resource, response)
		}
	}
}

// TestExtendedResourcesEndpoint: a pod is answered like the claim that the scheduler would
// make, with the field of the pod.
func TestExtendedResourcesEndpoint(t *testing.T) {
	server := start(t, review.Reviewer{Limits: validate.Limits{RequestsPerClaim: 1}}, func(s *webhook.Server) {
		s.Pods = webhook.ExtendedResources(webhook.Always(review.Reviewer{Limits: validate.Limits{RequestsPerClaim: 1}}), webhook.Options{})
	})
	for resources, allowed := range map[string]bool{
		`{}`: true, `{"deviceclass.resource.kubernetes.io/gpu": "8"}`: true,
		`{"deviceclass.resource.kubernetes.io/gpu": "1", "deviceclass.resource.kubernetes.io/nic": "1"}`: false,
	} {
		req := create("Pod", []byte(`{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": {"requests": `+resources+`}}]}}`))
		req.Kind.Group, req.Resource.Resource = "", "pods"
		if got := server.review(t, "/pods", req); got.Allowed != allowed {
			t.Errorf("%s: %+v", resources, got.Result)
		}
	}
}
