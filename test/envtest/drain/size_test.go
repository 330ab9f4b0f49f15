package drain_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestSize: the schema accepts a drain of 4,096 devices and refuses one of 4,097.
func TestSize(t *testing.T) {
	t.Parallel()
	for n, accepted := range map[int]bool{v1alpha1.DrainDevicesMax: true, v1alpha1.DrainDevicesMax + 1: false} {
		d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "size"}}
		d.APIVersion, d.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
		for i := range n {
			d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName{Driver: "size.example.com", Pool: fmt.Sprintf("node-%d", i/8), Device: fmt.Sprintf("gpu-%d", i%8)})
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		_, err = drains.Create(t.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if (err == nil) != accepted || !accepted && !strings.Contains(err.Error(), "must have at most 4096 items") {
			t.Errorf("%d devices: %v", n, err)
		}
	}
}
