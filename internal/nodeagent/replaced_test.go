//go:build linux

package nodeagent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/cdi"
)

// A folder that was removed where it came from is seen by its number of names: the way to
// it, as through a mount, still leads there.
func TestReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mounted, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	a := NewAgent(Options{Checkpoint: filepath.Join(mountOf(mounted), "dra_manager_state"), CDI: cdi.Options{HostRoot: t.TempDir()}})
	if err := a.replaced(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := a.replaced(); err == nil || !strings.Contains(err.Error(), "was removed on the node") {
		t.Errorf("got %v", err)
	}
}

// mountOf is a way to an open folder that its removal leaves.
func mountOf(folder *os.File) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())))
}
