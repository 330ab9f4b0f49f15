package server

import (
	"testing"
	"testing/fstest"
)

func TestContainerMemory(t *testing.T) {
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for name, test := range map[string]struct {
		files map[string]string
		limit int64
		body  int64
		cache int64
	}{
		"no cgroups":         {},
		"v2":                 {map[string]string{v2: "536870912\n"}, 512 << 20, 64 << 20, 16 << 20},
		"v2 without a limit": {map[string]string{v2: "max\n"}, 0, 0, 0},
		"v1":                 {map[string]string{v1: "1073741824\n"}, 1 << 30, 128 << 20, 32 << 20},
		"v1 without a limit": {map[string]string{v1: "9223372036854771712\n"}, 0, 0, 0},
		"v2 on the host":     {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory\n", "sys/fs/cgroup/kubepods.slice/memory.max": "536870912\n"}, 0, 0, 0},
		"v1 and v2":          {map[string]string{"sys/fs/cgroup/unified/cgroup.controllers": "\n", v1: "1073741824\n"}, 1 << 30, 128 << 20, 32 << 20},
		"not a number":       {map[string]string{v2: "0x20000000\n", v1: "\n"}, 0, 0, 0},
		"little":             {map[string]string{v2: "67108864\n"}, 64 << 20, 16 << 20, 2 << 20},
	} {
		files := fstest.MapFS{}
		for name, data := range test.files {
			files[name] = &fstest.MapFile{Data: []byte(data)}
		}
		limit := containerMemory(files)
		if body, cache := bodyMemory(limit), cacheMemory(limit); limit != test.limit || body != test.body || cache != test.cache {
			t.Errorf("%s: %d, %d of it for requests, %d for each cache", name, limit, body, cache)
		}
	}
}
