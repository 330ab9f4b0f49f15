package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// driverWorld has a driver on node n1, which has prepared a claim.
type driverWorld struct {
	idle bool // nothing is prepared
	// other is the name of a second pod with the labels that is ready.
	other string
	err   error
}

func driverPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: name, UID: "uid", Labels: map[string]string{"app": "driver"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func (w *driverWorld) Named(_ context.Context, _, name string) (*corev1.Pod, error) {
	switch name {
	case "driver-a":
		return driverPod(name), w.err
	case "controller":
		pod := driverPod(name)
		pod.Labels = nil
		return pod, w.err
	}
	return nil, w.err
}

func (w *driverWorld) On(context.Context, string, string, map[string]string) ([]corev1.Pod, error) {
	found := []corev1.Pod{*driverPod("driver-a")}
	if w.other != "" {
		other := *driverPod(w.other)
		other.UID = "another"
		found = append(found, other)
	}
	return found, w.err
}

func (w *driverWorld) Prepared(node string, drivers []string) ([]validate.PreparedClaim, error) {
	if w.idle || node != "n1" || !slices.Contains(drivers, "gpu.example.com") {
		return nil, w.err
	}
	return []validate.PreparedClaim{{Namespace: "ml", Claim: "gpu", Pod: "train", Driver: "gpu.example.com"}}, w.err
}

var drivers = v1alpha1.DriverPods{Pods: []v1alpha1.DriverPod{{Namespace: "gpu", Labels: map[string]string{"app": "driver"}, Names: "driver-*", Drivers: []string{"gpu.example.com"}}}}

// twoDrivers has two drivers in one pod.
var twoDrivers = v1alpha1.StewardConfiguration{DriverPods: v1alpha1.DriverPods{Pods: []v1alpha1.DriverPod{
	{Namespace: "gpu", Labels: map[string]string{"app": "driver"}, Drivers: []string{"nic.example.com"}}, drivers.Pods[0]}}}

// ending is a request to delete or to evict a pod.
func ending(t *testing.T, user string, pod *corev1.Pod, evict bool) admission.Request {
	t.Helper()
	req := admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name, UserInfo: authenticationv1.UserInfo{Username: user},
		OldObject: runtime.RawExtension{Raw: encoded(t, pod)}, Options: runtime.RawExtension{Raw: []byte(`{}`)},
	}
	if evict {
		req.Operation, req.SubResource, req.OldObject = admissionv1.Create, "eviction", runtime.RawExtension{}
		req.Object.Raw = fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q}}`, pod.Namespace, pod.Name)
	}
	return admission.Request{AdmissionRequest: req}
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestDriverPods: which deletions and evictions of a driver's pod are refused, with which status.
func TestDriverPods(t *testing.T) {
	broken := driverPod("driver-a")
	broken.Status.Conditions = nil
	elsewhere := driverPod("driver-a")
	elsewhere.Namespace = "ml"
	for name, tt := range map[string]struct {
		world driverWorld
		site  v1alpha1.StewardConfiguration
		pod   *corev1.Pod
		user  string
		evict bool
		code  int32
		say   string
	}{
		"deletion":            {pod: driverPod("driver-a"), code: http.StatusConflict, say: "driver gpu.example.com has prepared claims on node n1: ml/gpu of pod train"},
		"eviction":            {pod: driverPod("driver-a"), evict: true, code: http.StatusTooManyRequests, say: "drain the devices first (kubectl dra-steward drain node/n1)"},
		"other name":          {pod: driverPod("controller")},
		"no driver":           {pod: driverPod("controller"), evict: true},
		"gone":                {pod: driverPod("driver-c"), evict: true},
		"elsewhere":           {pod: elsewhere},
		"nothing prepared":    {pod: driverPod("driver-a"), world: driverWorld{idle: true}},
		"second instance":     {pod: driverPod("driver-a"), world: driverWorld{other: "driver-b"}},
		"no second instance":  {pod: driverPod("driver-a"), world: driverWorld{other: "controller"}, code: http.StatusConflict, say: "ml/gpu of pod train"},
		"two drivers in one":  {pod: driverPod("driver-a"), site: twoDrivers, code: http.StatusConflict, say: "ml/gpu of pod train"},
		"two, with another":   {pod: driverPod("driver-a"), site: twoDrivers, world: driverWorld{other: "driver-b"}},
		"two, one elsewhere":  {pod: driverPod("driver-a"), site: twoDrivers, world: driverWorld{other: "nic-a"}, code: http.StatusConflict, say: "ml/gpu of pod train"},
		"not ready":           {pod: broken},
		"by the collector":    {pod: driverPod("driver-a"), user: "system:serviceaccount:kube-system:pod-garbage-collector"},
		"where we only warn":  {pod: driverPod("driver-a"), site: v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeWarn}, say: "ml/gpu of pod train"},
		"where we observe":    {pod: driverPod("driver-a"), site: v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve}},
		"what is not known":   {pod: driverPod("driver-a"), world: driverWorld{err: errors.New("not read yet")}, say: "cannot check whether claims are prepared: not read yet"},
		"eviction, not known": {pod: driverPod("driver-a"), evict: true, world: driverWorld{err: errors.New("not read yet")}, say: "not read yet"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.site.DriverPods.Pods == nil {
				tt.site.DriverPods = drivers
			}
			r, err := review.New(tt.site)
			if err != nil {
				t.Fatal(err)
			}
			if tt.user == "" {
				tt.user = "system:serviceaccount:kube-system:daemon-set-controller"
			}
			h := webhook.DriverPodDeletions(webhook.Validating(webhook.Always(r), webhook.Options{}), &tt.world, webhook.Always(r), webhook.Options{})
			response := h.Handle(t.Context(), ending(t, tt.user, tt.pod, tt.evict))
			said, code := strings.Join(response.Warnings, "\n"), int32(0)
			if !response.Allowed {
				said, code = said+response.Result.Message, response.Result.Code
			}
			if code != tt.code || !strings.Contains(said, tt.say) || tt.say == "" && said != "" {
				t.Errorf("code %d, said %q; want %d, %q", code, said, tt.code, tt.say)
			}
		})
	}
}

type allowing struct{}

func (allowing) Handle(context.Context, admission.Request) admission.Response {
	return admission.Allowed("")
}

// TestDriverPodDeadline: deletions of one pod are refused for as long as the site says, from the
// first one that is not a dry run. After a long pause that is another one.
func TestDriverPodDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := v1alpha1.StewardConfiguration{DriverPods: drivers}
		site.DriverPods.Deadline.Duration = time.Hour
		r, err := review.New(site)
		if err != nil {
			t.Fatal(err)
		}
		h := webhook.DriverPodDeletions(allowing{}, &driverWorld{}, webhook.Always(r), webhook.Options{})
		for _, step := range []struct {
			after   time.Duration
			dry     bool
			allowed bool
		}{
			{0, true, false}, {time.Hour, false, false}, {17 * time.Minute, false, false}, {17 * time.Minute, false, false},
			{17 * time.Minute, false, false}, {17 * time.Minute, false, true}, {7 * time.Hour, false, false},
		} {
			<-time.After(step.after)
			req := ending(t, "jane", driverPod("driver-a"), false)
			req.DryRun = ptr.To(step.dry)
			if response := h.Handle(t.Context(), req); response.Allowed != step.allowed {
				t.Errorf("%s later: allowed is %v", step.after, response.Allowed)
			}
		}
	})
}

// TestDriverPodSettings: entries that select nothing, or cannot be checked, are refused.
func TestDriverPodSettings(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.DriverPods){
		"driverPods.pods[0].labels: Required":   func(d *v1alpha1.DriverPods) { d.Pods[0].Labels = nil },
		"driverPods.pods[0].drivers: Required":  func(d *v1alpha1.DriverPods) { d.Pods[0].Drivers = nil },
		"driverPods.pods[0].drivers[0]: Inval":  func(d *v1alpha1.DriverPods) { d.Pods[0].Drivers = []string{"GPU"} },
		"driverPods.pods[0].namespace: Invalid": func(d *v1alpha1.DriverPods) { d.Pods[0].Namespace = "" },
		"driverPods.pods[0].names: Invalid":     func(d *v1alpha1.DriverPods) { d.Pods[0].Names = "a')" },
		"driverPods.deadline: Invalid":          func(d *v1alpha1.DriverPods) { d.Deadline.Duration = -1 },
	} {
		site := v1alpha1.DriverPods{Pods: []v1alpha1.DriverPod{drivers.Pods[0]}}
		change(&site)
		if _, err := review.New(v1alpha1.StewardConfiguration{DriverPods: site}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
