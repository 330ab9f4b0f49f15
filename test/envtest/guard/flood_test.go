package guard_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// costly takes about as long as an expression may.
func costly(i int) string {
	const ten = "[1,2,3,4,5,6,7,8,9,10]"
	return fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a+b+c+d+%[2]d > 0))))", ten, i)
}

// worst is the worst claim that an API server takes: 32 requests with 8 alternatives with
// 32 selectors, no expression like another.
func worst(n int) []byte {
	c := claim("worst")
	c.Spec.Devices.Requests = nil
	for i := range 32 {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		for j := range 8 {
			alternative := resourceapi.DeviceSubRequest{Name: fmt.Sprint("a", j), DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
			for k := range 32 {
				alternative.Selectors = append(alternative.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: costly(n<<20 + i<<10 + j<<5 + k)}})
			}
			request.FirstAvailable = append(request.FirstAvailable, alternative)
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, request)
	}
	object, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "1", Kind: metav1.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"},
			Operation: admissionv1.Create, Namespace: namespace, Object: runtime.RawExtension{Raw: object},
			UserInfo: authenticationv1.UserInfo{Username: "greedy"}},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// flood sends one body after the other until ctx ends, as an API server would that had
// compiled nothing of it, and counts the answers.
func flood(ctx context.Context, t *testing.T, g *guard.Guard, writers int) (answers *atomic.Int64, done func()) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(g.Authority())
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: writers}}
	answers = &atomic.Int64{}
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for n := i; ctx.Err() == nil; n += writers {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL("/validate"), bytes.NewReader(worst(n)))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := c.Do(request)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("the flood got no answer: %v", err)
					}
					return
				}
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if ctx.Err() == nil && !strings.Contains(string(text), "not fully evaluated") {
					t.Errorf("the worst claim was evaluated fully: %.300s", text)
				}
				answers.Add(1)
			}
		})
	}
	return answers, group.Wait
}

// How many write at once, and how many claims of others are measured.
const floodWriters, ordinaryClaims = 4, 100

// TestFlood: while one user floods the webhook with the worst claims that there are, the
// claims of others are answered: a write without an answer in time is refused.
func TestFlood(t *testing.T) {
	g, c, seen := guarded(t, map[string]any{"webhooks": map[string]any{"claims": map[string]any{"failurePolicy": "Fail"}}})
	if _, err := c.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer c.ResourceV1().DeviceClasses().Delete(context.WithoutCancel(t.Context()), driver, metav1.DeleteOptions{})
	for i := range 4 {
		name := fmt.Sprint("flood-", i)
		var devices []resourceapi.Device
		for j := range 64 {
			devices = append(devices, resourceapi.Device{Name: fmt.Sprint("gpu-", j)})
		}
		if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice(name, devices...), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		defer c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	}
	write := func(i int) {
		ordinary := claim("ordinary")
		ordinary.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q && %d >= 0", driver, i)}}}
		if _, err := c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), ordinary, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("an ordinary claim was not answered: %v", err)
		}
	}
	eventually(t, "the informers have seen class and slices", func(context.Context) (bool, error) {
		write(0)
		return seen.take() == "", nil
	})
	measure := func() (p50, p99 time.Duration) {
		var took []time.Duration
		for i := range ordinaryClaims {
			start := time.Now()
			write(i)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	quiet50, quiet99 := measure()
	ctx, stop := context.WithCancel(t.Context())
	answers, done := flood(ctx, t, g, floodWriters)
	seen.take()
	flooded50, flooded99 := measure()
	stop()
	done()
	t.Logf("ordinary claims alone: p50 %v, p99 %v; beside %d worst claims of %d writers: p50 %v, p99 %v; %d of %d not fully evaluated",
		quiet50, quiet99, answers.Load(), floodWriters, flooded50, flooded99, strings.Count(seen.take(), "not fully evaluated"), ordinaryClaims)
	if answers.Load() == 0 {
		t.Error("the flood got no answer at all")
	}
}
