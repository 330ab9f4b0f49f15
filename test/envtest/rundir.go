package envtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// watchdogScript waits for the end of its standard input. A line means that
// the cluster was stopped in order; without one the process that started it has
// died, and the script ends the components that work in the folder and removes it.
const watchdogScript = `
trap '' HUP INT TERM
read -r line && exit 0
ours() {
	case "$1" in
	*etcd\ *"$RUN_DIR"* | *kube-apiserver\ *"$RUN_DIR"* | *kube-controller-manager\ *"$RUN_DIR"* | *kube-scheduler\ *"$RUN_DIR"*) return 0 ;;
	esac
	return 1
}
if [ -d /proc/self ]; then
	for process in /proc/[0-9]*; do
		command=$({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null)
		if ours "$command"; then kill -KILL "${process#/proc/}"; fi
	done
else
	pkill -KILL -f "(etcd|kube-apiserver|kube-controller-manager|kube-scheduler) .*$RUN_DIR"
fi
rm -rf -- "$RUN_DIR"
`

// runDir is the folder of a running cluster. The file "owner" in it is locked
// for as long as the process that made it lives.
type runDir struct {
	path     string
	owner    *os.File
	watchdog *exec.Cmd
	alive    io.WriteCloser
}

// newRunDir makes a folder in parent and removes those of dead processes.
func newRunDir(parent string) (*runDir, error) {
	if parent == "" {
		var err error
		if parent, err = assets.DefaultCache(); err != nil {
			return nil, err
		}
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("folder for running clusters: %w", err)
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(parent, "runs.lock")).Lock()
	if err != nil {
		return nil, fmt.Errorf("folder for running clusters: %w", err)
	}
	defer unlock()
	removeDead(parent)
	d := &runDir{}
	if d.path, err = os.MkdirTemp(parent, "run-"); err != nil {
		return nil, fmt.Errorf("folder for running clusters: %w", err)
	}
	if err := d.watchParent(); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

// watchParent locks the folder and starts its watchdog.
func (d *runDir) watchParent() error {
	owner, err := os.Create(filepath.Join(d.path, "owner"))
	if err != nil {
		return err
	}
	d.owner = owner
	proc.TryLock(owner)
	watchdog := watchdogFor(d.path)
	alive, err := watchdog.StdinPipe()
	if err != nil {
		return err
	}
	if err := watchdog.Start(); err != nil {
		return fmt.Errorf("watchdog of %s: %w", d.path, err)
	}
	d.watchdog, d.alive = watchdog, alive
	return nil
}

func watchdogFor(dir string) *exec.Cmd {
	watchdog := proc.Detached(exec.Command("/bin/sh", "-c", watchdogScript))
	watchdog.Env = append(os.Environ(), "RUN_DIR="+dir)
	return watchdog
}

// remove ends the watchdog and removes the folder.
func (d *runDir) remove() error {
	if d.watchdog != nil {
		// If the watchdog has been killed there is nothing to tell it.
		_, _ = io.WriteString(d.alive, "stopped\n")
		_ = d.watchdog.Wait()
	}
	if d.owner != nil {
		d.owner.Close()
	}
	return os.RemoveAll(d.path)
}

// removeDead removes the folders in parent whose owners have died together
// with their watchdogs. The caller holds the lock on parent.
func removeDead(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, "run-*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		owner, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			os.RemoveAll(dir) // died before it could start anything
			continue
		}
		if err != nil {
			continue
		}
		if proc.TryLock(owner) {
			_ = watchdogFor(dir).Run() // without input it cleans up at once
		}
		owner.Close()
	}
}
