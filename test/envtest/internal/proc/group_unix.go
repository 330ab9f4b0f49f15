//go:build unix

package proc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Interrupt asks the group of a started command to end.
func Interrupt(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGINT) }

// Terminate asks the group of a started command to end.
func Terminate(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGTERM) }

// Kill ends the group of a started command.
func Kill(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGKILL) }

// Pause stops the group of a started command until [Resume].
func Pause(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGSTOP) }

// Resume continues the group of a command that [Pause] has stopped.
func Resume(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGCONT) }

func signal(cmd *exec.Cmd, s syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// TryLock takes an exclusive lock on an open file until it is closed, and says
// whether it could.
func TryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
