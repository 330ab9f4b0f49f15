package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

const (
	// nodeName is the node of the devices.
	nodeName = "node-1"
	program  = "dra-steward"
)

// show is the demonstration: a list of scenes, each of which prints what happens and
// fails when something else happens.
type show struct {
	out      io.Writer
	cluster  *envtest.Cluster
	examples string
	// bin is a folder with kubectl and dra-steward.
	bin        string
	guard      *guard.Guard
	controller *controller.Controller
}

func (s *show) run(ctx context.Context) error {
	if _, err := os.Stat(s.file("demo/1-devices.yaml")); err != nil {
		return fmt.Errorf("%w: run the demo in the folder of the project, or name --examples", err)
	}
	for _, step := range []func(context.Context) error{s.programs, s.install, s.linted, s.denied, s.drained, s.back, s.patched} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// programs makes a folder with the programs that the demonstration types.
func (s *show) programs(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.bin = filepath.Join(s.cluster.Dir(), "bin")
	if err := os.Mkdir(s.bin, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(s.bin, program)); err != nil {
		return err
	}
	return os.Symlink(s.cluster.Kubectl(ctx).Path, filepath.Join(s.bin, assets.Kubectl))
}

// install puts dra-steward in front of the API server and starts its controller.
func (s *show) install(ctx context.Context) (err error) {
	values := map[string]any{"patches": map[string]any{"mode": "materialize"}}
	if s.guard, err = guard.Start(ctx, s.cluster, guard.Options{Values: values}); err != nil {
		return err
	}
	args, err := controller.Install(ctx, s.cluster, values)
	if err != nil {
		return err
	}
	s.controller, err = controller.Start(ctx, args)
	return err
}

func (s *show) close() error {
	var errs []error
	if s.controller != nil {
		errs = append(errs, s.controller.Stop())
	}
	if s.guard != nil {
		errs = append(errs, s.guard.Stop())
	}
	return errors.Join(errs...)
}

func (s *show) file(name string) string { return filepath.Join(s.examples, name) }

func (s *show) title(line string) {
	fmt.Fprintf(s.out, "\n%s\n%s\n", line, strings.Repeat("=", len(line)))
}

func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.out, "\n# "+strings.ReplaceAll(format, "\n", "\n# ")+"\n", args...)
}

// A command is what the demonstration types, with what it expects.
type command struct {
	line string
	// code is the exit code, and wants is a text of the output.
	code  int
	wants string
	// hidden types it unseen, again and again until it succeeds.
	hidden bool
}

// do runs commands as a person types them, and prints them and their output.
func (s *show) do(ctx context.Context, commands ...command) error {
	for _, c := range commands {
		if err := s.one(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) one(ctx context.Context, c command) error {
	if c.hidden {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, last = s.output(ctx, c)
			return last == nil, nil
		})
		if err != nil {
			return errors.Join(err, last)
		}
		return nil
	}
	text, err := s.output(ctx, c)
	fmt.Fprintf(s.out, "$ %s\n%s\n", c.line, indent(text))
	return err
}

// output runs a command and returns what it writes, and an error unless that is expected.
func (s *show) output(ctx context.Context, c command) (string, error) {
	shell := exec.CommandContext(ctx, "sh", "-c", c.line)
	shell.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(), "PATH="+s.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	text := strings.TrimRight(string(out), "\n")
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return text, ctx.Err()
	case err != nil && !errors.As(err, &exit):
		return text, err
	}
	if code := shell.ProcessState.ExitCode(); code != c.code || !strings.Contains(text, c.wants) {
		return text, fmt.Errorf("%s: exit code %d, want %d and %q:\n%s", c.line, code, c.code, c.wants, text)
	}
	return text, nil
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
