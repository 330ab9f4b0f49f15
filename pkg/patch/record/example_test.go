package record_test

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// A slice in which a patch has replaced the model. Published returns what the driver said.
func ExamplePublished() {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpu"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com",
		Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": *text("H100").Attribute,
		}}},
	}}
	originals := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{
		{Name: "model"}: {Published: text("A100"), Written: text("H100"), Patch: "correct-model"},
	}}}
	annotation, err := originals.Encode()
	if err != nil {
		fmt.Println(err)
		return
	}
	published, err := record.Published(record.With(slice, annotation), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*published.Spec.Devices[0].Attributes["model"].StringValue)
	// Output: A100
}
