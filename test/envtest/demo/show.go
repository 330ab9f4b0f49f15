package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// nodeName is the node that the examples' slice belongs to.
const nodeName = "node-1"

// show is the demonstration: a list of scenes, each of which prints what happens and
// fails when something else happens.
type show struct {
	out      io.Writer
	cluster  *envtest.Cluster
	examples string
	guard    *guard.Guard

	denied, warned int
}

func (s *show) run(ctx context.Context) error {
	stock, err := s.stock(ctx)
	if err != nil {
		return err
	}
	if err := s.install(ctx, map[string]any{"devicesPerSlice": 10}); err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{
		func(ctx context.Context) error { return s.admitted(ctx, stock) },
		s.scheduled,
		s.reapplied,
		s.warnings,
		s.denials,
		s.foreignAllocator,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "\nDone: %d writes denied, %d warned about, one pod scheduled.\n", s.denied, s.warned)
	return nil
}

// install puts dra-steward with the given limits in front of the API server, in
// place of the one that is there.
func (s *show) install(ctx context.Context, limits map[string]any) error {
	if err := s.close(); err != nil {
		return err
	}
	g, err := guard.Start(ctx, s.cluster, guard.Options{Values: map[string]any{"limits": limits}})
	s.guard = g
	return err
}

func (s *show) close() error {
	if s.guard == nil {
		return nil
	}
	err := s.guard.Stop()
	s.guard = nil
	return err
}

func (s *show) title(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintf(s.out, "\n%s\n%s\n", line, strings.Repeat("=", len(line)))
}

func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.out, "\n# "+strings.ReplaceAll(format, "\n", "\n# ")+"\n", args...)
}

// kubectl runs a command as a person would, prints it and what it prints, and
// returns the latter.
func (s *show) kubectl(ctx context.Context, args ...string) (string, error) {
	var quoted []string
	for _, arg := range args {
		if strings.ContainsAny(arg, " {}") {
			arg = "'" + arg + "'"
		}
		quoted = append(quoted, arg)
	}
	fmt.Fprintf(s.out, "$ kubectl %s\n", strings.Join(quoted, " "))
	output, err := s.cluster.Kubectl(ctx, args...).CombinedOutput()
	fmt.Fprintf(s.out, "%s\n", indent(strings.TrimRight(string(output), "\n")))
	s.warned += strings.Count(string(output), "Warning: ")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errRefused
	}
	return string(output), err
}

// errRefused says that kubectl has ended with an error, which it has printed.
var errRefused = errors.New("kubectl was refused")

// succeed runs a command that must succeed, and warn about want unless that is empty.
func (s *show) succeed(ctx context.Context, want string, args ...string) error {
	output, err := s.kubectl(ctx, args...)
	switch {
	case err != nil:
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	case !strings.Contains(output, want):
		return fmt.Errorf("kubectl %s should have warned with %q", strings.Join(args, " "), want)
	case want == "" && strings.Contains(output, "Warning: "):
		return fmt.Errorf("kubectl %s should not have warned", strings.Join(args, " "))
	}
	return nil
}

// refuse runs a command that dra-steward must deny, and say want.
func (s *show) refuse(ctx context.Context, want string, args ...string) error {
	output, err := s.kubectl(ctx, args...)
	if !errors.Is(err, errRefused) || !strings.Contains(output, "dra-steward") || !strings.Contains(output, want) {
		return fmt.Errorf("kubectl %s should have been denied by dra-steward with %q, not %v", strings.Join(args, " "), want, err)
	}
	s.denied++
	return nil
}

// files are the examples of a folder, in order.
func (s *show) files(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.examples, folder, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no examples there; run the demo in the folder of the project or name --examples", filepath.Join(s.examples, folder))
	}
	slices.Sort(files)
	return files, err
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
