// Command generate writes the modules from which the tests build kubelets of older minors:
// testdata/kubelet-<minor>. Run it in test/node:
//
//	go run ./generate 1.36.3
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/tools/kubemodule"
)

// modulePath is the path of the modules; nothing imports them.
const modulePath = "github.com/dra-steward/dra-steward/test/node/testdata/kubelet-"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "Usage: generate version...")
		os.Exit(2)
	}
	for _, version := range os.Args[1:] {
		if err := generate(strings.TrimPrefix(version, "v")); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", version, err)
			os.Exit(1)
		}
	}
}

func generate(version string) error {
	minor := version[:strings.LastIndex(version, ".")]
	dir, err := os.MkdirTemp("", "generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := kubemodule.Module{Path: modulePath + minor, Tools: []string{kubemodule.Path + "/cmd/kubelet"}}.Kubernetes(version)
	if err != nil {
		return err
	}
	target := filepath.Join("testdata", "kubelet-"+minor)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return kubemodule.Write(dir, file, filepath.Join(target, "go"))
}
