// Command generate writes the module files from which package assets builds a
// Kubernetes version: kube-<version>.mod and .sum, or with -etcd those of etcd.
// Run it in the folder of package assets or above it:
//
//	go run ./assets/generate 1.37.0
//	go run ./assets/generate -etcd 3.7.3
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/tools/kubemodule"
)

// modulePath is the path of the main modules; nothing imports them.
const modulePath = "github.com/dra-steward/dra-steward/test/envtest/assets/"

func main() {
	etcd := flag.Bool("etcd", false, "the versions are etcd's")
	folder := flag.String("folder", "assets", "`folder` to write to")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "Usage: generate [flags] version...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, version := range flag.Args() {
		if err := generate(*folder, strings.TrimPrefix(version, "v"), *etcd); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", version, err)
			os.Exit(1)
		}
	}
}

func generate(folder, version string, etcd bool) error {
	dir, err := os.MkdirTemp("", "generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name, module := "kube", kubeModule
	if etcd {
		name, module = "etcd", etcdModule
	}
	file, err := module(version)
	if err != nil {
		return err
	}
	return kubemodule.Write(dir, file, filepath.Join(folder, name+"-"+version))
}

func etcdModule(version string) (string, error) {
	const path = "go.etcd.io/etcd/server/v3"
	return kubemodule.Module{Path: modulePath + "etcd", Tools: []string{path}}.On(path, version)
}

func kubeModule(version string) (string, error) {
	m := kubemodule.Module{Path: modulePath + "kube"}
	for _, binary := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		m.Tools = append(m.Tools, kubemodule.Path+"/cmd/"+binary)
	}
	return m.Kubernetes(version)
}
