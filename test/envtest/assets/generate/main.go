// Command generate writes the module files from which package assets builds a
// Kubernetes version: kube-<version>.mod and .sum, or with -etcd those of etcd.
// Run it in the folder of package assets or above it:
//
//	go run ./assets/generate 1.37.0
//	go run ./assets/generate -etcd 3.7.3
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
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
	content, err := module(dir, version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(content), 0o644); err != nil {
		return err
	}
	if _, err := goCommand(dir, "mod", "tidy"); err != nil {
		return err
	}
	for _, ext := range []string{".mod", ".sum"} {
		content, err := os.ReadFile(filepath.Join(dir, "go"+ext))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+"-"+version+ext), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func etcdModule(dir, version string) (string, error) {
	const path = "go.etcd.io/etcd/server/v3"
	upstream, err := upstreamModule(dir, path+"@v"+version)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("module %setcd\n\ngo %s\n\ntool %s\n\nrequire %s v%s\n", modulePath, upstream.Go.Version, path, path, version), nil
}

// kubeModule replaces the staging modules, which k8s.io/kubernetes takes from
// its own tree, by their releases. 1.37.0 goes with 0.37.0.
func kubeModule(dir, version string) (string, error) {
	const path = "k8s.io/kubernetes"
	upstream, err := upstreamModule(dir, path+"@v"+version)
	if err != nil {
		return "", err
	}
	var m strings.Builder
	fmt.Fprintf(&m, "module %skube\n\ngo %s\n\n", modulePath, upstream.Go.Version)
	for _, setting := range upstream.Godebug {
		fmt.Fprintf(&m, "godebug %s=%s\n\n", setting.Key, setting.Value)
	}
	m.WriteString("tool (\n")
	for _, binary := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		fmt.Fprintf(&m, "\t%s/cmd/%s\n", path, binary)
	}
	fmt.Fprintf(&m, ")\n\nrequire %s v%s\n\nreplace (\n", path, version)
	for _, r := range upstream.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/src/") {
			fmt.Fprintf(&m, "\t%s => %s v0.%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(version, "1."))
		}
	}
	m.WriteString(")\n")
	return m.String(), nil
}

// upstreamModule downloads a module and parses its go.mod.
func upstreamModule(dir, module string) (*modfile.File, error) {
	out, err := goCommand(dir, "mod", "download", "-json", module)
	if err != nil {
		return nil, err
	}
	var download struct{ GoMod string }
	if err := json.Unmarshal(out, &download); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(download.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(download.GoMod, content, nil)
}

func goCommand(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
