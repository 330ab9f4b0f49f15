// Package build builds the programs of this repository. Images, archives, the demo and the
// tests use it, so that what is tested is what ships.
package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

// The programs.
const (
	Steward   = "dra-steward"
	Scheduler = "dra-steward-scheduler"
)

// Options say what to build.
type Options struct {
	// Tree is the root of the repository.
	Tree string
	// Program is Steward or Scheduler; empty for Steward.
	Program string
	// Output is the file to write.
	Output string
	// OS and Arch are the platform; empty for that of this machine.
	OS, Arch string
	// Stamp is what the program reports about itself.
	Stamp Stamp
}

// A Stamp identifies the source of a program.
type Stamp struct {
	// Version is a semantic version with its v.
	Version string
	// Commit is that of the source, with -dirty behind it if files differ; empty if it is
	// not known.
	Commit string
	// Time is that of the commit, zero if it is not known.
	Time time.Time
}

// Environment variables that replace what [Read] finds out, for a tree without its repository.
const (
	versionVariable = "VERSION"
	commitVariable  = "COMMIT"
	timeVariable    = "SOURCE_DATE_EPOCH"
)

// Read returns the stamp of a tree: the version of its chart, with -dev behind it unless the
// commit has the tag of that version. The environment variables VERSION, COMMIT and
// SOURCE_DATE_EPOCH (seconds since 1970) replace it.
func Read(ctx context.Context, tree string) (Stamp, error) {
	version, err := chartVersion(tree)
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{Version: version + "-dev"}
	if commit, err := git(ctx, tree, "rev-parse", "HEAD"); err == nil {
		s.Commit = commit
		if s.Time, err = commitTime(ctx, tree); err != nil {
			return Stamp{}, err
		}
		changes, err := git(ctx, tree, "status", "--porcelain", "--untracked-files=no")
		if err != nil {
			return Stamp{}, err
		}
		tags, err := git(ctx, tree, "tag", "--points-at", "HEAD")
		if err != nil {
			return Stamp{}, err
		}
		switch {
		case changes != "":
			s.Commit += "-dirty"
		case slices.Contains(strings.Fields(tags), version):
			s.Version = version
		}
	}
	s.Version = cmp.Or(os.Getenv(versionVariable), s.Version)
	s.Commit = cmp.Or(os.Getenv(commitVariable), s.Commit)
	if text := os.Getenv(timeVariable); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Stamp{}, fmt.Errorf("%s=%s: want seconds since 1970", timeVariable, text)
		}
		s.Time = time.Unix(seconds, 0).UTC()
	}
	return s, nil
}

func chartVersion(tree string) (string, error) {
	file := filepath.Join(tree, "charts", Steward, "Chart.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if chart.AppVersion == "" {
		return "", fmt.Errorf("%s: no appVersion", file)
	}
	return "v" + chart.AppVersion, nil
}

func commitTime(ctx context.Context, tree string) (time.Time, error) {
	text, err := git(ctx, tree, "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

func git(ctx context.Context, tree string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Program builds a program. The same source, stamp, platform and version of Go make the same
// bytes on every machine.
func Program(ctx context.Context, o Options) error {
	dir, source := o.Tree, "./cmd/dra-steward"
	switch o.Program {
	case "", Steward:
	case Scheduler:
		dir, source = filepath.Join(o.Tree, "scheduler"), "."
	default:
		return fmt.Errorf("there is no program %q: want %s or %s", o.Program, Steward, Scheduler)
	}
	output, err := filepath.Abs(o.Output)
	if err != nil {
		return err
	}
	flags, err := linkerFlags(o)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", output, source)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if o.OS != "" {
		command.Env = append(command.Env, "GOOS="+o.OS)
	}
	if o.Arch != "" {
		command.Env = append(command.Env, "GOARCH="+o.Arch)
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", cmp.Or(o.Program, Steward), err, out)
	}
	return nil
}

// linkerFlags leave out symbols and all that differs from machine to machine, and set the
// versions.
func linkerFlags(o Options) (string, error) {
	const own, kubernetes = "github.com/dra-steward/dra-steward/internal/serving/version.", "k8s.io/component-base/version."
	flags := []string{"-s", "-w", "-buildid=", "-X", own + "number=" + o.Stamp.Version, "-X", own + "commit=" + o.Stamp.Commit}
	if o.Program == Scheduler {
		upstream, err := upstreamVersion(o.Tree)
		if err != nil {
			return "", err
		}
		flags = append(flags, "-X", kubernetes+"gitVersion="+upstream+"+dra-steward."+strings.TrimPrefix(o.Stamp.Version, "v"), "-X", kubernetes+"gitCommit="+o.Stamp.Commit)
	}
	return strings.Join(flags, " "), nil
}

// upstreamVersion is the version of Kubernetes that the scheduler is built from.
func upstreamVersion(tree string) (string, error) {
	file := filepath.Join(tree, "scheduler", "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	module, err := modfile.Parse(file, data, nil)
	if err != nil {
		return "", err
	}
	for _, r := range module.Require {
		if r.Mod.Path == "k8s.io/kubernetes" {
			return r.Mod.Version, nil
		}
	}
	return "", errors.New(file + ": no k8s.io/kubernetes")
}
