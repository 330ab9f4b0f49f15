// Package build makes the oracles: one program per Kubernetes minor, compiled from
// the registry strategies of that minor's k8s.io/kubernetes.
//
// The source in testdata/program is the same for all minors; the module files in
// modules, written by the command generate, say which Kubernetes it is compiled
// with. Nothing is downloaded but Go modules, by the go command, and these are
// verified against the checked-in sums.
//
// What is built stays in the user's cache folder under a name that holds a hash of
// everything that determines it. A process that needs a missing program takes a
// file lock, so that any number of processes that ask at the same time build once.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Options say which program is wanted.
type Options struct {
	// Minor is a minor such as 1.37.
	Minor string
	// Cache is the folder for what is built; empty means dra-steward in the user's
	// cache folder.
	Cache string
	// Output receives the progress of a build; nil discards it.
	Output io.Writer
}

const linkerFlags = "-s -w"

// Program returns the path of a minor's oracle, which it builds if the cache has it
// not. Cold, that takes about three minutes on two idle cores; cancelling ctx ends
// it and leaves nothing half-built.
func Program(ctx context.Context, o Options) (string, error) {
	release, err := resolve(o.Minor)
	if err != nil {
		return "", err
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w; set HOME or XDG_CACHE_HOME", err)
		}
		o.Cache = filepath.Join(dir, "dra-steward")
	}
	if err := os.MkdirAll(o.Cache, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	key, err := release.key(ctx, o.Cache)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Cache, "oracle-"+release.version+"-"+key)
	if exists(path) {
		return path, nil
	}
	return path, release.buildOnce(ctx, path, o.Output)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// key hashes everything that determines a build.
func (r release) key(ctx context.Context, dir string) (string, error) {
	toolchain, err := goCommand(ctx, dir, "", nil, "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH", "CGO_ENABLED", "GOAMD64", "GOARM64", "GOEXPERIMENT")
	if err != nil {
		return "", fmt.Errorf("the go command is needed to build the oracle: %w", err)
	}
	hash := sha256.New()
	part := func(content []byte) { fmt.Fprintf(hash, "%d\n%s\n", len(content), content) }
	for _, content := range [][]byte{toolchain, []byte(runtime.GOOS + runtime.GOARCH), r.mod, r.sum, []byte(r.tag()), []byte(linkerFlags)} {
		part(content)
	}
	err = source(func(name string, content []byte) error {
		part([]byte(name))
		part(content)
		return nil
	})
	return hex.EncodeToString(hash.Sum(nil))[:12], err
}

// buildOnce builds path unless another process does so first.
func (r release) buildOnce(ctx context.Context, path string, output io.Writer) error {
	unlock, err := lock(ctx, path+".lock", output)
	if err != nil {
		return err
	}
	defer unlock()
	if exists(path) {
		return nil
	}
	left, _ := filepath.Glob(path + ".build-*") // of builds that were killed
	for _, dir := range left {
		os.RemoveAll(dir)
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".build-")
	if err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := r.build(ctx, temp, output); err != nil {
		return fmt.Errorf("building the oracle for Kubernetes %s: %w", r.version, err)
	}
	return os.Rename(filepath.Join(temp, "program"), path)
}

// build compiles the program into dir.
func (r release) build(ctx context.Context, dir string, output io.Writer) error {
	start := time.Now()
	fmt.Fprintf(output, "oracle: building for Kubernetes %s from Go modules; about 3 minutes on two idle cores if Go's build cache is cold\n", r.version)
	source := filepath.Join(dir, "source")
	if err := WriteSource(source); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"go.mod": r.mod, "go.sum": r.sum} {
		if err := os.WriteFile(filepath.Join(source, name), content, 0o644); err != nil {
			return err
		}
	}
	lines := &counter{output: output, start: start, next: start.Add(progressInterval), state: "downloading modules"}
	packages, err := goCommand(ctx, source, dir, lines, "list", "-deps", "-tags", r.tag(), ".")
	if err != nil {
		return err
	}
	lines.compiling(bytes.Count(packages, []byte("\n")))
	args := []string{"build", "-v", "-tags", r.tag(), "-ldflags", linkerFlags, "-o", filepath.Join(dir, "program"), "."}
	if _, err := goCommand(ctx, source, dir, lines, args...); err != nil {
		return err
	}
	fmt.Fprintf(output, "oracle: built in %s\n", time.Since(start).Round(time.Second))
	return nil
}

// interruptGrace is the time the go command has to clean up when interrupted.
const interruptGrace = 5 * time.Second

// goCommand runs the go command in dir, with its temporary files in temp, and
// returns its standard output. Its messages go to log too.
func goCommand(ctx context.Context, dir, temp string, log io.Writer, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOWORK", "GOFLAGS", "GOTMPDIR", "CGO_ENABLED"}, name)
	})
	command.Env = append(command.Env, "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath", "CGO_ENABLED=0", "GOTMPDIR="+temp)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = interruptGrace
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if log != nil {
		command.Stderr = io.MultiWriter(&stderr, log)
	}
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("go %s: %w:\n%s", args[0], err, lastLines(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// lastLines returns what of a long output says why it ended.
func lastLines(output string) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// lock takes a file lock and says so when it has to wait.
func lock(ctx context.Context, path string, output io.Writer) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	done := make(chan result, 1)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		done <- result{unlock, err}
	}()
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for {
		select {
		case r := <-done:
			return r.unlock, r.err
		case <-patience.C:
			fmt.Fprintf(output, "oracle: waiting for another process that builds the same (%s)\n", path)
		case <-ctx.Done():
			go func() {
				if r := <-done; r.err == nil {
					r.unlock()
				}
			}()
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		}
	}
}
