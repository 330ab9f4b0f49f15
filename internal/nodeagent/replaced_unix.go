//go:build unix

package nodeagent

import (
	"os"
	"syscall"
)

// isRemoved reports whether a folder that can still be read has lost its name: it was mounted
// here, and removed where it came from.
func isRemoved(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
