package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dra-steward/dra-steward/tools/build"
)

// An EarlierRelease is what a commit of the past installs.
type EarlierRelease struct {
	// Chart is the folder of its chart.
	Chart string
	// Program is the file of its program.
	Program string
}

// earlierVariable holds the folder of an earlier release for the process in the namespace.
const earlierVariable = "DRA_STEWARD_EARLIER"

// BuildEarlier takes the commit before the one that added a file out of the repository's history,
// and builds its program in dir. It runs outside of the namespace, where a build can download
// modules. Inside, [Earlier] returns the result.
func BuildEarlier(ctx context.Context, dir, added string) error {
	if os.Getenv(insideVariable) != "" {
		return nil
	}
	if err := os.Setenv(earlierVariable, dir); err != nil {
		return err
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	commit, err := before(ctx, root, added)
	if err != nil {
		// The tests say so where they need it.
		return os.WriteFile(missing(dir), []byte(err.Error()), 0o600)
	}
	tree := filepath.Join(dir, "tree")
	if err := unpack(ctx, root, commit, tree); err != nil {
		return err
	}
	stamp, err := build.Read(ctx, tree)
	if err != nil {
		return err
	}
	stamp.Commit = commit
	return build.Program(ctx, build.Options{Tree: tree, Output: filepath.Join(dir, build.Steward), Stamp: stamp})
}

// Earlier returns what [BuildEarlier] has built, or why the history does not have it.
func Earlier() (EarlierRelease, error) {
	dir := os.Getenv(earlierVariable)
	if dir == "" {
		return EarlierRelease{}, errors.New("no earlier release was built")
	}
	if reason, err := os.ReadFile(missing(dir)); err == nil {
		return EarlierRelease{}, errors.New(string(reason))
	}
	return EarlierRelease{Chart: filepath.Join(dir, "tree", "charts", build.Steward), Program: filepath.Join(dir, build.Steward)}, nil
}

func missing(dir string) string { return filepath.Join(dir, "missing") }

// before returns the commit before the one that added a file. A shallow clone has none: what adds
// all files there has no parent.
func before(ctx context.Context, root, added string) (string, error) {
	commits, err := git(ctx, root, "log", "--diff-filter=A", "--format=%H", "--", added)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(commits)
	if len(fields) == 0 {
		return "", fmt.Errorf("the history does not have the commit that added %s", added)
	}
	parent, err := git(ctx, root, "rev-parse", "--quiet", "--verify", fields[len(fields)-1]+"^")
	if err != nil {
		return "", fmt.Errorf("the history does not have the commit before the one that added %s", added)
	}
	return strings.TrimSpace(parent), nil
}

// unpack writes the files of a commit into a folder.
func unpack(ctx context.Context, root, commit, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	archive, err := git(ctx, root, "archive", commit)
	if err != nil {
		return err
	}
	tar := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	tar.Stdin = strings.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, said.String())
	}
	return string(out), nil
}
