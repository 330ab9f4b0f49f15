// Package proc starts child processes that end with us: each leads a process
// group of its own, so that an interrupt at the terminal reaches only us and we
// can end a child with all its children; on Linux the kernel also ends a child
// whose parent dies.
package proc

import (
	"bytes"
	"os"
	"os/exec"
)

// Tail returns the last lines of the file, at most n, for an error message.
func Tail(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return LastLines(content, n)
}

// LastLines returns the last lines of the text, at most n.
func LastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// Command prepares cmd as the leader of a group of its own.
func Command(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = attributes()
	return cmd
}

// Detached prepares cmd as the leader of a group of its own that outlives us.
func Detached(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = detached()
	return cmd
}
