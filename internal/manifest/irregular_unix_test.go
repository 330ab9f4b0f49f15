//go:build unix

package manifest_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// TestIrregular: what may never end is refused, before it is opened.
func TestIrregular(t *testing.T) {
	t.Chdir(t.TempDir()) // the path of a socket is short
	if err := syscall.Mkfifo("fifo.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", "socket.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := os.Symlink(filepath.Join(".", "fifo.yaml"), "link.yaml"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"fifo.yaml": "is a named pipe", "link.yaml": "is a named pipe", "socket.yaml": "is a socket", os.DevNull: "is a device",
	} {
		for _, err := range (manifest.Reader{}).Walk(file) {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"-" for standard input`) {
				t.Errorf("%s: %v, want it to contain %q", file, err, want)
			}
		}
	}
	for document, err := range (manifest.Reader{}).Walk(".") {
		t.Errorf("the folder has %v, %v", document, err)
	}
}
