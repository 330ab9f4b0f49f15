package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCompilation: every error of the CEL compiler has its own place, also in a block scalar.
func TestCompilation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "class.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors:
  - cel:
      expression: |
        device.driver == "gpu.example.com" &&
          device.atributes["gpu.example.com"].memory == 3 &&
          device.drivers == ""
  - cel:
      expression: "device.driver =\n= 3"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for result := range linter(t).Run(file) {
		for _, r := range result.Reports {
			got = append(got, fmt.Sprintf("%d:%d: %s [%s]", r.Line, r.Column, r.Message, r.Rule))
		}
	}
	want := []string{
		"9:17: the expression does not compile: undefined field 'atributes' [selector-expression]",
		"10:17: the expression does not compile: undefined field 'drivers' [selector-expression]",
	}
	if len(got) < 3 || !slices.Equal(got[:2], want) {
		t.Errorf("got %q, want %q first", got, want)
	}
	for _, line := range got[2:] {
		if line[:3] != "12:" {
			t.Errorf("%s: want it on line 12", line)
		}
	}
}

// TestDroppedLists: a list that the API server drops and the attribute that it then refuses
// are one finding, which names the cause.
func TestDroppedLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "slice.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1}
spec:
  driver: cpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: cpu-0
    attributes:
      cores: {ints: [1, 2]}
      example.com/zones: {strings: [a, b]}
      empty: {}
  - name: cpu-1
    attributes:
      cores: {ints: [3]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for result := range linter(t).Run(file) {
		for _, r := range result.Reports {
			got = append(got, r.String()[len(file):])
		}
	}
	want := []string{
		":11:15: error: ResourceSlice node-1: spec.devices[cpu-0].attributes.cores.ints: the list is dropped without the feature gate DRAListTypeAttributes in Kubernetes 1.37, and an attribute without a value is refused; the same holds for 2 other attributes [attribute-value]",
		":13:7: error: ResourceSlice node-1: spec.devices[cpu-0].attributes[empty]: Invalid value: 0: exactly one value must be set [attribute-value]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
