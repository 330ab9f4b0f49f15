// Command generate writes the module files that the oracle of a Kubernetes version
// is built with: modules/<version>.mod and .sum. Run it in the module's folder:
//
//	go run ./build/generate 1.37.0
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/tools/kubemodule"
)

const folder = "build/modules"

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
	dir, err := os.MkdirTemp("", "generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build.WriteSource(dir); err != nil {
		return err
	}
	file, err := kubemodule.Module{Path: build.Module}.Kubernetes(version)
	if err != nil {
		return err
	}
	return kubemodule.Write(dir, file, filepath.Join(folder, version))
}
