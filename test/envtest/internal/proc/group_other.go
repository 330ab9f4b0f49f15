//go:build !unix

package proc

import (
	"errors"
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

// Pause fails: processes cannot be stopped for a while.
func Pause(*exec.Cmd) error { return errors.ErrUnsupported }

// Resume fails as [Pause] does.
func Resume(*exec.Cmd) error { return errors.ErrUnsupported }

// TryLock reports that the lock was not taken.
func TryLock(*os.File) bool { return false }

func attributes() *syscall.SysProcAttr { return nil }

func detached() *syscall.SysProcAttr { return nil }
