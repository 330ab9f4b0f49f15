package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// handleOf is as much of a scheduler as startPatches asks of.
type handleOf struct {
	fwk.Handle
	config  *rest.Config
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	manager fwk.SharedDRAManager
	woken   *int // how many pods Activate has been called for
}

func (h handleOf) ProfileName() string                                    { return "patched" }
func (h handleOf) Activate(_ klog.Logger, pods map[string]*corev1.Pod)    { *h.woken += len(pods) }
func (h handleOf) KubeConfig() *rest.Config                               { return h.config }
func (h handleOf) ClientSet() kubernetes.Interface                        { return h.client }
func (h handleOf) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handleOf) SharedDRAManager() fwk.SharedDRAManager                 { return h.manager }

// published are the slices of the scheduler.
type published struct {
	fwk.SharedDRAManager
	slices []*resourceapi.ResourceSlice
}

func (p published) ResourceSlices() fwk.ResourceSliceLister { return p }

func (p published) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return p.slices, nil
}

// patchesServer answers lists with patches, and watches with no events.
type patchesServer []v1alpha1.ResourceSlicePatch

func (s patchesServer) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: request}
	query := request.URL.Query()
	if query.Has("sendInitialEvents") { // the reader lists then
		status, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		answer.StatusCode, answer.Body = http.StatusUnprocessableEntity, io.NopCloser(bytes.NewReader(status))
		return answer, err
	}
	if query.Has("watch") {
		silent, end := io.Pipe()
		context.AfterFunc(request.Context(), func() { end.CloseWithError(io.EOF) })
		answer.Body = silent
		return answer, nil
	}
	list := v1alpha1.ResourceSlicePatchList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "ResourceSlicePatchList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s,
	}
	body, err := json.Marshal(list)
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, err
}

// A class that changes, appears or goes changes what the patches select that name it: they are
// taken in again, and pods that wait are told.
func TestClassChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		class := classOf("gpu", `device.driver == "a.example.com"`)
		w := startClassWorld(ctx, t, class)
		defer w.stop(cancel)
		w.wantModels("patched", "")

		began := w.woken
		w.update(class, `device.driver == "b.example.com"`)
		w.wantModels("", "patched")
		w.update(class, `device.driver.endsWith(".example.com")`)
		w.wantModels("patched", "patched")
		if err := w.client.ResourceV1().DeviceClasses().Delete(ctx, "gpu", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantModels("", "")
		if _, err := w.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantModels("patched", "patched")

		before := w.woken
		if before-began < 4 {
			t.Errorf("the pod that waits was tried again %d times, want once for each change", before-began)
		}
		w.update(classOf("another", "true"), "false")
		w.wantModels("patched", "patched")
		if w.woken != before {
			t.Error("a class that no patch names woke the pods that wait")
		}
	})
}

// Pods with claims wait until classes have been read: without its class a patch selects no device.
func TestWaitsForClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		const late = time.Minute // later than patches are waited for
		w := startClassWorldWith(ctx, t, classOf("gpu", `device.driver == "a.example.com"`), func(f informers.SharedInformerFactory) {
			for _, early := range []cache.SharedIndexInformer{f.Resource().V1().ResourceSlices().Informer(), f.Core().V1().Pods().Informer()} {
				go early.Run(ctx.Done())
			}
			time.AfterFunc(late, func() { f.Resource().V1().DeviceClasses().Informer().Run(ctx.Done()) })
		})
		defer w.stop(cancel)
		<-time.After(late - time.Second)
		if _, err := w.patches.list(w.slices); !errors.Is(err, errNotRead) {
			t.Errorf("before classes have been read: %v, want %v", err, errNotRead)
		}
		<-time.After(2 * time.Second)
		w.wantModels("patched", "")
	})
}

// classWorld is a scheduler with one slice of each of two drivers and one patch.
type classWorld struct {
	t       *testing.T
	client  *fake.Clientset
	factory informers.SharedInformerFactory
	slices  []*resourceapi.ResourceSlice
	patches *patches
	woken   int // how often the pod that waits was to be tried again
}

func startClassWorld(ctx context.Context, t *testing.T, class *resourceapi.DeviceClass) *classWorld {
	t.Helper()
	return startClassWorldWith(ctx, t, class, func(f informers.SharedInformerFactory) { f.Start(ctx.Done()) })
}

// startClassWorldWith starts the informers as start does.
func startClassWorldWith(ctx context.Context, t *testing.T, class *resourceapi.DeviceClass, start func(informers.SharedInformerFactory)) *classWorld {
	t.Helper()
	w := &classWorld{t: t, client: fake.NewClientset(class, classOf("another", "true"), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "waits", Namespace: "default"},
		Spec:       corev1.PodSpec{SchedulerName: "patched", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}},
	})}
	for _, driver := range []string{"a.example.com", "b.example.com"} {
		w.slices = append(w.slices, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver, Pool: resourceapi.ResourcePool{Name: "pool", ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "gpu-0"}},
			},
		})
	}
	w.factory = informers.NewSharedInformerFactory(w.client, 0)
	handle := handleOf{
		config: &rest.Config{Host: "http://apiserver", Transport: patchesServer{patchOf("gpu")}},
		client: w.client, factory: w.factory, manager: published{slices: w.slices}, woken: &w.woken,
	}
	var err error
	w.patches, err = startPatches(ctx, handle, nil, newReport(klog.Background(), events.NewFakeRecorder(10), nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.patches.addProfile(ctx, handle); err != nil {
		t.Fatal(err)
	}
	start(w.factory)
	return w
}

func (w *classWorld) stop(cancel context.CancelFunc) {
	cancel()
	w.factory.Shutdown()
}

// update gives a class another selector.
func (w *classWorld) update(class *resourceapi.DeviceClass, expression string) {
	w.t.Helper()
	class.Spec.Selectors[0].CEL.Expression = expression
	if _, err := w.client.ResourceV1().DeviceClasses().Update(w.t.Context(), class, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// wantModels compares the models of the two devices.
func (w *classWorld) wantModels(want ...string) {
	w.t.Helper()
	<-time.After(time.Second)
	synctest.Wait()
	shown, err := w.patches.list(w.slices)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, slice := range shown {
		got := ""
		if model := slice.Spec.Devices[0].Attributes["example.com/model"].StringValue; model != nil {
			got = *model
		}
		if got != want[i] {
			w.t.Errorf("the device of %s has the model %q, want %q", slice.Spec.Driver, got, want[i])
		}
	}
}

func classOf(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}},
	}
}

// patchOf gives all devices of a class a model.
func patchOf(class string) v1alpha1.ResourceSlicePatch {
	model := "patched"
	return v1alpha1.ResourceSlicePatch{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "ResourceSlicePatch"},
		ObjectMeta: metav1.ObjectMeta{Name: "model"},
		Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
			Filter: &v1alpha1.DevicePatchFilter{DeviceClassName: &class},
			Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"example.com/model": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &model}},
			},
		}},
	}
}
