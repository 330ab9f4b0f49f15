//go:build !unix

package nodeagent

import "os"

func isRemoved(os.FileInfo) bool { return false }
