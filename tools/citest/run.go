package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience is how long a step may be silent before we say that it still runs.
const patience = time.Minute

// run runs the step. The answers of go test -json, or go tool test2json, go into the report; everything
// else is printed as it is.
func (s step) run(ctx context.Context, out io.Writer, report *Results) error {
	dir, err := os.MkdirTemp("", "citest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, graph := s.measured(dir, report.Timer)
	command := exec.CommandContext(ctx, s.args[0], s.args[1:]...)
	command.Dir = s.dir
	command.Env = s.environment()
	ownGroup(command)
	command.WaitDelay = time.Minute

	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return err
	}
	finished := make(chan error, 1)
	go func() {
		err := command.Wait()
		writer.Close()
		finished <- err
	}()
	printed := &counter{Writer: out}
	stop := s.heartbeat(ctx, printed)
	report.read(reader, printed, s.tests())
	stop()
	err = <-finished
	report.cost(s.name, command.ProcessState, graph)
	if s.silent && printed.count > 0 && err == nil {
		err = errors.New("these files are not formatted: run gofmt -w on them")
	}
	return err
}

// tests reports whether the step prints what go test -json, or go tool test2json, does.
func (s step) tests() bool {
	return slices.ContainsFunc(s.args, func(arg string) bool { return arg == "-json" || arg == "test2json" })
}

// heartbeat says every now and then that the step is still running.
func (s step) heartbeat(ctx context.Context, out io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		begin, tick := time.Now(), time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				fmt.Fprintf(out, "… %s has been running for %s\n", s.name, time.Since(begin).Round(time.Second))
			}
		}
	}()
	return cancel
}

// A counter counts the lines that are written through it. The heartbeat and the
// command's output share one.
type counter struct {
	io.Writer
	mutex sync.Mutex
	count int
}

func (c *counter) Write(data []byte) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count += strings.Count(string(data), "\n")
	return c.Writer.Write(data)
}
