package uninstall

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize/record"
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
				Written: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &patched}}, Patch: "rack"}, restoringTime, "deadline"},
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
