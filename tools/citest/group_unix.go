//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group of its own and interrupts all of it
// when the context ends: the go command, the test, and what the test started.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
}
