//go:build !unix

package node

import "os"

func isRemoved(os.FileInfo) bool { return false }
