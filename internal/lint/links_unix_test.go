//go:build unix

package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndlessConfiguration: a configuration file that is a link to a device is refused before it is read.
func TestEndlessConfiguration(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(folder, ConfigurationFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := upwards(folder); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
