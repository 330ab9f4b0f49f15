package plugin

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// Until patches have been read, pods that may use devices do not come into the queue, where
// each of them would fail, with an event and a status; the others do.
func TestPreEnqueue(t *testing.T) {
	p := &Plugin{&dynamicresources.DynamicResources{}, &patches{synced: make(chan struct{})}}
	plain, claim := &corev1.Pod{}, &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}}
	if status := p.PreEnqueue(t.Context(), plain); !status.IsSuccess() {
		t.Errorf("a pod without devices: %v", status)
	}
	if status := p.PreEnqueue(t.Context(), claim); status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != errNotRead.Error() {
		t.Errorf("a pod with a claim: %v", status)
	}
	if _, err := p.patches.list(nil); err != errNotRead {
		t.Errorf("slices: %v", err)
	}
	close(p.patches.synced)
	if status := p.PreEnqueue(context.Background(), claim); status.Message() == errNotRead.Error() {
		t.Errorf("a pod with a claim, then: %v", status)
	}
}

// That patched values are written into slices counts as long as there is such a slice.
func TestNoteSlices(t *testing.T) {
	p := &patches{wake: make(chan struct{}, 1), written: map[string]bool{}, report: newReport(klog.Background(), nil, nil, nil)}
	slice := func(name, originals string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{record.Annotation: originals}}}
	}
	originals, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: {Previous: []record.PreviousValue{{}}}}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	handler := p.noteSlices()
	for i, step := range []struct {
		do    func()
		awake bool
		want  int
	}{
		{func() { handler.OnAdd(slice("a", ""), true) }, false, 0},
		{func() { handler.OnUpdate(slice("a", ""), slice("a", originals)) }, true, 1},
		{func() { handler.OnUpdate(slice("a", originals), slice("a", originals)) }, false, 1},
		{func() { handler.OnAdd(slice("b", originals), false) }, true, 2},
		{func() { handler.OnUpdate(slice("a", originals), slice("a", "")) }, true, 1},
		{func() { handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "b", Obj: slice("b", originals)}) }, true, 0},
		{func() { handler.OnDelete(slice("a", "")) }, false, 0},
	} {
		step.do()
		awake := false
		select {
		case <-p.wake:
			awake = true
		default:
		}
		if awake != step.awake || len(p.written) != step.want {
			t.Errorf("step %d: %t, %v", i, awake, p.written)
		}
	}
}
