package version

import (
	"runtime/debug"
	"testing"
)

func TestFrom(t *testing.T) {
	recorded := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	}
	for name, tt := range map[string]struct {
		number, commit string
		recorded       *debug.BuildInfo
		want           Info
	}{
		"linked":   {"v0.1.0", "def", recorded("v9.9.9"), Info{"v0.1.0", "def", "go1.26.0"}},
		"recorded": {"", "", recorded("v0.2.0"), Info{"v0.2.0", "abc", "go1.26.0"}},
		"neither":  {"", "", recorded(devel), Info{"", "abc", "go1.26.0"}},
		"nothing":  {"", "", nil, Info{}},
	} {
		if got := from(tt.number, tt.commit, tt.recorded); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
