package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dra-steward/dra-steward/pkg/cdi"
)

// specification writes a CDI specification as a driver does, and returns its directory.
func specification(text string) string {
	dir, err := os.MkdirTemp("", "cdi")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "gpu.json"), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Println(err)
	}
	return dir
}

const gpu = `{"cdiVersion": "0.6.0", "kind": "example.com/gpu", "devices": [
	{"name": "gpu-0", "containerEdits": {"env": ["GPU=0"]}}]}`

// An id that resolves has no problems.
func ExampleRegistry_Check() {
	dir := specification(gpu)
	defer os.RemoveAll(dir)
	registry, err := cdi.Read(cdi.Options{Dirs: []string{dir}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result := registry.Check("example.com/gpu=gpu-0")
	fmt.Println(result.OK(), filepath.Base(result.Spec), result.Version)
	// Output: true gpu.json 0.6.0
}

// A container that is started with an id that does not resolve fails. The problem names the
// reason.
func ExampleRegistry_Check_missing() {
	dir := specification(gpu)
	defer os.RemoveAll(dir)
	registry, err := cdi.Read(cdi.Options{Dirs: []string{dir}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"example.com/gpu=gpu-1", "example.org/nic=nic-0", "gpu-0"} {
		for _, problem := range registry.Check(id).Problems {
			fmt.Println(id, problem.Reason)
		}
	}
	// Output:
	// example.com/gpu=gpu-1 no-device
	// example.org/nic=nic-0 no-spec
	// gpu-0 invalid-name
}

// The reasons are the values of a label of metrics, each with its documentation.
func ExampleReasons() {
	for _, reason := range cdi.Reasons()[:3] {
		fmt.Println(reason.ID)
	}
	// Output:
	// invalid-name
	// no-spec
	// no-device
}

// Runtimes read these directories. Later ones have precedence.
func ExampleDefaultDirs() {
	fmt.Println(cdi.DefaultDirs())
	// Output: [/etc/cdi /var/run/cdi]
}
