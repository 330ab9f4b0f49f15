// Package oracle asks the API server's own code what it does with an object.
//
// An [Oracle] is a process that holds the registry strategies of one Kubernetes
// minor: defaults, PrepareForCreate and PrepareForUpdate, hand-written and
// declarative validation, in the order in which the API server runs them, with
// nothing of ours in between. [Start] finds or builds it (package build), [Oracle.Judge]
// sends it writes and returns its answers (package wire). Package compare
// holds our rules and defaults against its answers, package generate makes the
// objects to ask about.
package oracle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// Options say which oracle is wanted.
type Options struct {
	// Minor is the Kubernetes minor; empty means the newest.
	Minor string
	// Workers is how many writes are judged at once; 0 means one per processor.
	Workers int
	// Output receives the progress of a build, and what the process complains about;
	// nil discards it.
	Output io.Writer
}

// Newest is the newest minor that there is an oracle for.
const Newest = "1.37"

// An Oracle is a running process. It may be used by several goroutines at once.
type Oracle struct {
	minor   string
	gates   map[string]wire.Gate // those of DRA that the minor has
	command *exec.Cmd
	mu      sync.Mutex // one batch at a time
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts the oracle of a minor, which is built first if it has never been.
// The process ends with ctx or by Close.
func Start(ctx context.Context, o Options) (*Oracle, error) {
	if o.Minor == "" {
		o.Minor = Newest
	}
	program, err := build.Program(ctx, build.Options{Minor: o.Minor, Output: o.Output})
	if err != nil {
		return nil, err
	}
	var args []string
	if o.Workers > 0 {
		args = []string{fmt.Sprintf("-workers=%d", o.Workers)}
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Stderr = o.Output
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the oracle for Kubernetes %s: %w", o.Minor, err)
	}
	started := &Oracle{minor: build.Minor(o.Minor), command: command, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	answers, err := started.Judge([]wire.Case{{ID: "gates", Op: wire.Gates}})
	if err != nil {
		return nil, errors.Join(err, started.Close())
	}
	started.gates = answers[0].Gates
	return started, nil
}

// Minor is the Kubernetes minor that the oracle speaks for.
func (o *Oracle) Minor() string { return o.minor }

// Close ends the process.
func (o *Oracle) Close() error {
	return errors.Join(o.in.Close(), o.command.Wait())
}

// Judge returns the answers to a batch, in its order. Cases with the same feature gates
// should be neighbours: a change of gates is a pause. Gates that the minor has not, or
// that cannot be switched there, are left out.
func (o *Oracle) Judge(batch []wire.Case) ([]wire.Answer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines, err := o.encode(batch)
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := o.in.Write(lines)
		sent <- err
	}()
	answers := make([]wire.Answer, len(batch))
	for i := range batch {
		line, err := o.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("oracle %s: no answer to case %s: %w", o.minor, batch[i].ID, err)
		}
		if err := json.Unmarshal(line, &answers[i]); err != nil {
			return nil, fmt.Errorf("oracle %s: answer to case %s: %w", o.minor, batch[i].ID, err)
		}
	}
	return answers, <-sent
}

// encode writes a batch as lines, or nothing of it. The objects stay as they are,
// since spaces count in what has a greatest length; only a line break becomes a space.
func (o *Oracle) encode(batch []wire.Case) ([]byte, error) {
	var lines []byte
	for _, c := range batch {
		object, old := c.Object, c.Old
		c.Object, c.Old, c.Gates = nil, nil, o.possible(c.Gates)
		line, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		lines = append(lines, line[:len(line)-1]...)
		for _, field := range []struct {
			name string
			raw  json.RawMessage
		}{{"object", object}, {"old", old}} {
			if len(field.raw) == 0 {
				continue
			}
			if !json.Valid(field.raw) {
				return nil, fmt.Errorf("case %s: %s is no JSON", c.ID, field.name)
			}
			lines = fmt.Appendf(lines, ",%q:", field.name)
			lines = append(lines, bytes.ReplaceAll(field.raw, []byte("\n"), []byte(" "))...)
		}
		lines = append(lines, "}\n"...)
	}
	return lines, nil
}

// possible returns the gates that can be set in the minor.
func (o *Oracle) possible(gates map[string]bool) map[string]bool {
	set := map[string]bool{}
	for name, on := range gates {
		if gate, exists := o.gates[name]; name == wire.AllDRA || exists && !gate.Locked {
			set[name] = on
		}
	}
	return set
}
