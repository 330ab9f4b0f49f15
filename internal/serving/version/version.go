// Package version has the version of the running program.
package version

import "runtime/debug"

// The linker sets them in the programs that tools/build makes.
var number, commit string

// Info is what is known about the running program.
type Info struct {
	// Version is a semantic version with its v, such as v0.1.0; empty if it is not known.
	Version string
	// Commit is the commit of the source; empty if it is not known.
	Commit string
	// GoVersion is that of the compiler, such as go1.26.0.
	GoVersion string
}

// devel is what the go command records for a program without a version.
const devel = "(devel)"

// Get returns what the linker has set, else what the go command has recorded: go install
// records the version of the module, go build in a repository the commit.
func Get() Info {
	info, _ := debug.ReadBuildInfo()
	return from(number, commit, info)
}

func from(number, commit string, recorded *debug.BuildInfo) Info {
	v := Info{Version: number, Commit: commit}
	if recorded != nil {
		v.GoVersion = recorded.GoVersion
		if v.Version == "" && recorded.Main.Version != devel {
			v.Version = recorded.Main.Version
		}
		for _, s := range recorded.Settings {
			if s.Key == "vcs.revision" && v.Commit == "" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
