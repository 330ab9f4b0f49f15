// Package assets finds or builds the binaries of a Kubernetes control plane.
//
// A [Set] is the etcd, kube-apiserver, kube-controller-manager, kube-scheduler
// and kubectl of one Kubernetes version. [Get] takes each binary from the first
// place that has it: the folder in KUBEBUILDER_ASSETS, the store of
// setup-envtest (both only if the binary reports the wanted minor), the cache,
// and at last a build from Go modules, which fills the cache. Nothing is
// downloaded but Go modules, by the go command, and these are verified against
// the go.sum files that are embedded here: kube-<version>.mod and .sum for each
// Kubernetes version, etcd-<version>.mod and .sum for etcd. Why, is in
// docs/decisions/0005-test-binaries-from-go-modules.md.
//
// The cache is a folder per version and build (see [Options.Cache]). A process
// that needs a missing binary takes a file lock, so that any number of
// processes that ask at the same time build once.
//
// A first build takes longer than go test's default timeout of ten minutes, and
// go test shows no progress. Therefore build before testing:
//
//	go run github.com/dra-steward/dra-steward/test/envtest/assets/cmd/build
package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The binaries of a Set, by file name.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
)

// Binaries lists all binaries that Get can provide.
func Binaries() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl}
}

// Options say which binaries are wanted. The zero value asks for all binaries
// of the default version.
type Options struct {
	// Kubernetes is a version such as 1.37.0, or a minor such as 1.37. Empty
	// means the environment's DRA_STEWARD_KUBERNETES, or else DefaultVersion.
	Kubernetes string
	// Binaries are the names of the wanted binaries; empty means all.
	Binaries []string
	// Output receives what is found and built, and the progress of a build: a
	// line every ten seconds. Nil discards it.
	Output io.Writer
	// Cache is the folder for what is built; empty means DefaultCache().
	Cache string
	// IgnoreInstalled passes over KUBEBUILDER_ASSETS and setup-envtest's store.
	IgnoreInstalled bool
}

// Set is where the binaries are.
type Set struct {
	// Kubernetes is the version that was asked for, in full: 1.37.0. A binary
	// that was installed before may be of another patch of the same minor.
	Kubernetes string

	cache string
	paths map[string]string
}

// Path returns the absolute path of a binary, or "" if it was not asked for.
func (s *Set) Path(binary string) string {
	return s.paths[binary]
}

// Get returns the wanted binaries, building those that are nowhere to be found.
// A cold build of all takes ten to eleven minutes on two idle cores. Cancelling ctx
// ends a build and leaves nothing half-built in the cache.
func Get(ctx context.Context, o Options) (*Set, error) {
	g, err := newGetter(o)
	if err != nil {
		return nil, err
	}
	return g.get(ctx)
}

// getter is one call of Get; tests replace build.
type getter struct {
	release
	wanted    []string
	cache     string
	log       *progress
	installed []folder
	build     func(context.Context, buildRequest) error
}

func newGetter(o Options) (*getter, error) {
	release, err := resolve(o.Kubernetes)
	if err != nil {
		return nil, err
	}
	wanted := o.Binaries
	if len(wanted) == 0 {
		wanted = Binaries()
	}
	for _, name := range wanted {
		if !slices.Contains(Binaries(), name) {
			return nil, fmt.Errorf("unknown binary %q: available are %s", name, strings.Join(Binaries(), ", "))
		}
	}
	cache := o.Cache
	if cache == "" {
		if cache, err = DefaultCache(); err != nil {
			return nil, err
		}
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	g := &getter{
		release: release,
		wanted:  wanted,
		cache:   cache,
		log:     newProgress(o.Output),
		build:   goBuild,
	}
	if !o.IgnoreInstalled {
		g.installed = installedFolders(release.kubernetes)
	}
	return g, nil
}

func (g *getter) get(ctx context.Context) (*Set, error) {
	set := &Set{Kubernetes: g.kubernetes, cache: g.cache, paths: map[string]string{}}
	var missing []string
	for _, name := range g.wanted {
		if path := g.findInstalled(ctx, name); path != "" {
			set.paths[name] = path
		} else {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return set, nil
	}
	dir, err := g.fromCache(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		set.paths[name] = filepath.Join(dir, name)
	}
	return set, nil
}

// Dir returns a folder that has all binaries of the set, as KUBEBUILDER_ASSETS
// needs it: where they are, if that is one folder, or else one in the cache with
// links to them.
func (s *Set) Dir() (string, error) {
	hash := sha256.New()
	dirs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.paths)) {
		dirs[filepath.Dir(s.paths[name])] = true
		fmt.Fprintln(hash, s.paths[name])
	}
	if len(dirs) == 1 {
		return slices.Collect(maps.Keys(dirs))[0], nil
	}
	dir := filepath.Join(s.cache, s.Kubernetes+"-links-"+hex.EncodeToString(hash.Sum(nil))[:12])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("folder of links: %w", err)
	}
	for name, path := range s.paths {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("folder of links: %w", err)
		}
	}
	return dir, nil
}
