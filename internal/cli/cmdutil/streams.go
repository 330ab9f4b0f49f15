// Package cmdutil is what all commands share: streams, exit codes and completion.
package cmdutil

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// Exit codes of the program.
const (
	ExitClean    = 0 // done, and nothing was found
	ExitFindings = 1 // done, and something is wrong with what was looked at
	ExitFailed   = 2 // could not do it: wrong flags, unreadable files, no certificate
	ExitUnknown  = 3 // done, and it is unknown whether something is wrong: what decides could not be checked
)

// Streams are what the program reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Terminal is where Err is shown, if that is a terminal, for output that moves the
	// cursor; nil otherwise.
	Terminal io.Writer
	// Name is how the program was called if that is not dra-steward, such as "kubectl
	// dra-steward".
	Name string
	// SetLogger makes the logger of a server or controller that of the libraries in this
	// process; nil leaves theirs. It is not safe once their goroutines run, so a process with
	// several programs in it leaves it nil.
	SetLogger func(logr.Logger)
}

// Printable returns streams without control characters: what commands print contains text
// of tenants and drivers. flush ends them.
func (s Streams) Printable() (_ Streams, flush func()) {
	out, err := &printable.Writer{To: s.Out}, &printable.Writer{To: s.Err}
	s.Terminal = terminal(s.Err)
	s.Out, s.Err = out, err
	return s, func() {
		_ = out.Flush() // the command has ended
		_ = err.Flush()
	}
}

// terminal returns out if a person looks at it, or nil.
func terminal(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return out
}

// ErrFindings ends a command with ExitFindings; what was found is printed already.
var ErrFindings = errors.New("findings")

// ErrUnknown ends a command with ExitUnknown; what is unknown is printed already.
var ErrUnknown = errors.New("unknown")

// ErrInterrupted ends a command that lasts until Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// NoSuchCommand refuses arguments of the program itself and names the commands that
// are near.
func NoSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %s?", args[0], strings.Join(near[:min(len(near), 3)], ", "))
	}
	return fmt.Errorf("there is no command %q; see '%s --help'", args[0], c.CommandPath())
}
