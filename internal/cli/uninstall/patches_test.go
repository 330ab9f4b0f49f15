package uninstall

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// TestAwaitDrivers: a driver that has nothing to write does not keep a release from being
// uninstalled; a value that is still in a slice does.
func TestAwaitDrivers(t *testing.T) {
	own, patched := "own", "patched"
	for name, tt := range map[string]struct {
		entry record.Entry
		after time.Duration
		want  string
	}{
		"the driver was told better": {after: 0},
		"the driver writes nothing": {
			record.Entry{Previous: []record.PreviousValue{{Value: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &patched}}}}}, stillTime, ""},
		"a value is in force": {
			record.Entry{Published: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &own}},
				Written: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &patched}}, Patch: "rack"}, restoringTime, "there are no fewer than 3m0s ago"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}
				if tt.after > 0 {
					text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: tt.entry}}}.Encode()
					if err != nil {
						t.Fatal(err)
					}
					slice.Annotations = map[string]string{record.Annotation: text}
				}
				u := &uninstall{client: fake.NewClientset(slice), out: io.Discard}
				start := time.Now()
				_, err := u.awaitDrivers(t.Context())
				if got := time.Since(start); got < tt.after || got > tt.after+2*time.Second {
					t.Errorf("took %v, want %v", got, tt.after)
				}
				if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// TestRestoredOneByOne: the wait goes on as long as slices are restored, also where the API server
// does not answer once.
func TestRestoredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patched := "patched"
		text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: {
			Written: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &patched}}, Patch: "rack"}}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var objects []runtime.Object
		for i := range 10 {
			objects = append(objects, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), ResourceVersion: "1", Annotations: map[string]string{record.Annotation: text}}})
		}
		client, reads := fake.NewClientset(objects...), 0
		client.PrependReactor("list", "resourceslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++
			return reads == 5, nil, errors.New("connection lost")
		})
		go func() {
			for i := range 10 {
				<-time.After(2 * time.Minute)
				_ = client.ResourceV1().ResourceSlices().Delete(t.Context(), fmt.Sprint(i), metav1.DeleteOptions{})
			}
		}()
		u := &uninstall{client: client, out: io.Discard}
		if n, err := u.awaitDrivers(t.Context()); err != nil || n.InForce > 0 {
			t.Errorf("%d are left, %v", n.InForce, err)
		}
	})
}

// TestPatchesOff: with patches.mode none, nothing takes values out of slices. uninstall refuses as
// long as some are there, and waits for no driver.
func TestPatchesOff(t *testing.T) {
	patched := record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To("patched")}}
	for name, tt := range map[string]struct {
		entry record.Entry
		want  string
	}{
		"in force": {record.Entry{Written: patched, Patch: "rack"}, "ResourceSlices have 1 patched value, which nothing removes with patches.mode none"},
		"waiting":  {record.Entry{Previous: []record.PreviousValue{{Value: patched}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: tt.entry}}}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{record.Annotation: text}}}
			webhook := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w"}}
			webhook.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"serve", "--patches=none"}}}
			client := fake.NewClientset(slice, webhook)
			u := &uninstall{uninstallOptions: uninstallOptions{namespace: "n", webhook: "w", controller: "c", restore: true}, client: client, out: io.Discard}
			err = u.restoreSlices(t.Context())
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			for _, action := range client.Actions() {
				if verb := action.GetVerb(); verb != "get" && verb != "list" {
					t.Errorf("%s of %s", verb, action.GetResource().Resource)
				}
			}
		})
	}
}
