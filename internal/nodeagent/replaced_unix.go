//go:build unix

package nodeagent

import (
	"os"
	"syscall"
)

// isRemoved says whether a folder that can still be looked at has no name any more: it was
// mounted here, and removed where it came from.
func isRemoved(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
