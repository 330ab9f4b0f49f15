//go:build !unix

package proc

import (
	"os"
	"os/exec"
	"syscall"
)

// Interrupt ends a started command.
func Interrupt(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Terminate ends a started command.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Kill ends a started command.
func Kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// TryLock reports that the lock was not taken.
func TryLock(*os.File) bool { return false }

func attributes() *syscall.SysProcAttr { return nil }

func detached() *syscall.SysProcAttr { return nil }
