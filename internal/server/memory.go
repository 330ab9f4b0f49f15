package server

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory makes the Go runtime stay below the memory limit of the container, unless
// GOMEMLIMIT is set. It returns the smaller of both limits, 0 if there is none.
func limitMemory() int64 {
	limit := containerMemory(os.DirFS("/"))
	if os.Getenv("GOMEMLIMIT") == "" {
		if limit > 0 {
			debug.SetMemoryLimit(limit / 10 * 9) // the rest is for what the runtime does not count
		}
		return limit
	}
	set := debug.SetMemoryLimit(-1)
	if set == math.MaxInt64 { // GOMEMLIMIT=off
		return limit
	}
	if limit == 0 {
		return set
	}
	return min(limit, set)
}

// containerMemory reads the memory limit of the container, of cgroup v2 or v1; 0 is none.
func containerMemory(files fs.FS) int64 {
	for _, name := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err == nil && limit > 0 && limit < math.MaxInt64/2 { // cgroup v1 has a huge number for none
			return limit
		}
	}
	return 0
}

// bodyMemory is the part of the memory limit for requests that are read, 0 for the default.
func bodyMemory(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	return min(max(limit/8, 16<<20), 256<<20)
}

// cacheMemory is the part of the memory limit for each cache: the decisions of the policies,
// those of the guard's policies, and the outcomes of selectors. It is 0 for the default. A
// change of the configuration or of a policy makes new caches before the old ones are freed.
func cacheMemory(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	return min(max(limit/32, 1<<20), 64<<20)
}
