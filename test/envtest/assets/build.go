package assets

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// interruptGrace is the time the go command has to clean up when interrupted.
const interruptGrace = 5 * time.Second

// errorLines is how much of the go command's output an error repeats.
const errorLines = 20

// buildRequest asks for binaries of a release, to be put into temp.
type buildRequest struct {
	release
	names []string
	temp  string
	log   *progress
}

// ldflags are the linker's flags: no symbols, and the version that the
// Kubernetes binaries report and negotiate features by.
func ldflags(kubernetes string) string {
	return "-s -w -X k8s.io/component-base/version.gitVersion=v" + kubernetes
}

// goVersion identifies the Go toolchain and the settings that change what it
// makes, as of a folder outside any module.
func goVersion(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH", "CGO_ENABLED", "GOAMD64", "GOARM64", "GOEXPERIMENT")
	cmd.Dir = dir
	cmd.Env = goEnv("")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the go command is needed to build the control plane: %w; install Go, or set KUBEBUILDER_ASSETS to a folder with the binaries", err)
	}
	return string(out), nil
}

// goBuild builds the requested binaries with the go command.
func goBuild(ctx context.Context, r buildRequest) error {
	start := time.Now()
	r.log.printf("building %s for Kubernetes %s from Go modules; a whole control plane takes 10 to 11 minutes on two idle cores if Go's build cache is cold, one minute if it is warm",
		strings.Join(r.names, ", "), r.kubernetes)
	kube := slices.DeleteFunc(slices.Clone(r.names), func(name string) bool { return name == Etcd })
	if len(kube) < len(r.names) {
		// The module's root package would be named "server".
		if err := r.run(ctx, "etcd", r.etcd, Etcd, "go.etcd.io/etcd/server/v3"); err != nil {
			return err
		}
	}
	if len(kube) > 0 {
		packages := make([]string, 0, len(kube))
		for _, name := range kube {
			packages = append(packages, "k8s.io/kubernetes/cmd/"+name)
		}
		if err := r.run(ctx, strings.Join(kube, ", "), r.kube, "", packages...); err != nil {
			return err
		}
	}
	r.log.printf("built %s in %s", strings.Join(r.names, ", "), time.Since(start).Round(time.Second))
	return nil
}

// run builds packages of one module into r.temp, or into the file output there.
func (r buildRequest) run(ctx context.Context, what string, m module, output string, packages ...string) error {
	dir, err := os.MkdirTemp(r.temp, "module-")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"go.mod": m.mod, "go.sum": m.sum} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	defer r.log.every(10*time.Second, what)()
	r.log.phase("downloading modules")
	flags := []string{"-ldflags", ldflags(r.kubernetes)}
	stale, err := r.goCommand(ctx, dir, func([]byte) {}, slices.Concat([]string{"list", "-deps"}, flags, []string{"-f", staleReason}, packages)...)
	if err != nil {
		return fmt.Errorf("building %s for Kubernetes %s: %w", what, r.kubernetes, err)
	}
	r.log.compiling(toCompile(stale))
	target := r.temp + string(filepath.Separator) + output
	args := slices.Concat([]string{"build", "-v"}, flags, []string{"-o", target}, packages)
	if _, err := r.goCommand(ctx, dir, r.log.compiled, args...); err != nil {
		return fmt.Errorf("building %s for Kubernetes %s: %w", what, r.kubernetes, err)
	}
	return nil
}

// staleReason makes go list print a line for each package that is not up to date.
const staleReason = "{{if .Stale}}{{.StaleReason}}{{end}}"

// toCompile counts the packages that the go command has to compile: a package that is only
// not installed comes from Go's build cache.
func toCompile(stale []byte) (n int) {
	for line := range bytes.Lines(stale) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasSuffix(line, []byte("available in build cache")) {
			n++
		}
	}
	return n
}

// goCommand runs the go command in dir, hands each line that it writes to
// standard error to seen, and returns its standard output.
func (r buildRequest) goCommand(ctx context.Context, dir string, seen func(line []byte), args ...string) ([]byte, error) {
	cmd := proc.Command(exec.CommandContext(ctx, "go", args...))
	cmd.Dir = dir
	cmd.Env = goEnv(r.temp)
	cmd.Cancel = func() error { return proc.Interrupt(cmd) }
	cmd.WaitDelay = interruptGrace
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	lines := &lineWriter{seen: seen}
	cmd.Stderr = io.MultiWriter(&stderr, lines)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		_ = proc.Kill(cmd) // whatever of its group is still there
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w:\n%s", args[0], err, proc.LastLines(stderr.Bytes(), errorLines))
	}
	return stdout.Bytes(), nil
}

// goEnv is our environment without what would change the build, with the go
// command's temporary files in temp.
func goEnv(temp string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOWORK", "GOFLAGS", "GOTMPDIR", "CGO_ENABLED"}, name)
	})
	env = append(env, "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath", "CGO_ENABLED=0")
	if temp != "" {
		env = append(env, "GOTMPDIR="+temp)
	}
	return env
}

// lineWriter hands on what is written to it line by line.
type lineWriter struct {
	seen    func(line []byte)
	partial []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		advance, line, _ := bufio.ScanLines(w.partial, false)
		if advance == 0 {
			return len(p), nil
		}
		w.seen(line)
		w.partial = w.partial[advance:]
	}
}
