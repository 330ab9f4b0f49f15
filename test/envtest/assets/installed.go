package assets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// versionTimeout bounds how long a binary may take to report its version.
const versionTimeout = 20 * time.Second

// oldestEtcd is the oldest etcd that the Kubernetes versions here work with.
const oldestEtcd = "3.5.0"

// errNoVersion says that a binary ran but printed nothing that looks like a version.
var errNoVersion = errors.New("no version in its output")

// folder is a place where another user may have put binaries.
type folder struct {
	path   string
	origin string
}

// installedFolders lists KUBEBUILDER_ASSETS and the folders of setup-envtest's
// store for the minor of the given version, the newest patch first.
func installedFolders(kubernetes string) []folder {
	var folders []folder
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		folders = append(folders, folder{dir, "KUBEBUILDER_ASSETS"})
	}
	store, err := envtest.SetupEnvtestDefaultBinaryAssetsDirectory()
	if err != nil {
		return folders // without a home folder there is no store
	}
	suffix := "-" + runtime.GOOS + "-" + runtime.GOARCH
	dirs, err := filepath.Glob(filepath.Join(store, "*"+suffix))
	if err != nil {
		return folders
	}
	versionOf := func(dir string) string {
		base := filepath.Base(dir)
		return base[:len(base)-len(suffix)]
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !sameMinor(versionOf(dir), kubernetes) })
	slices.SortFunc(dirs, func(a, b string) int {
		order, _ := version.MustParseGeneric(versionOf(b)).Compare(versionOf(a))
		return order
	})
	for _, dir := range dirs {
		folders = append(folders, folder{dir, "setup-envtest"})
	}
	return folders
}

// findInstalled returns the path of an installed binary of the wanted version,
// or "", and reports what it took and what it passed over.
func (g *getter) findInstalled(ctx context.Context, name string) string {
	for _, dir := range g.installed {
		path, err := filepath.Abs(filepath.Join(dir.path, name))
		if err != nil {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			continue
		}
		reported, err := reportedVersion(ctx, path)
		switch {
		case err != nil:
			g.log.printf("%s from %s is not used: it does not report its version: %v", path, dir.origin, err)
		case !g.acceptable(name, reported):
			g.log.printf("%s from %s is not used: it is version %s, wanted is %s", path, dir.origin, reported, g.wantedVersion(name))
		default:
			g.log.printf("using %s %s from %s (%s)", name, reported, dir.origin, path)
			return path
		}
	}
	return ""
}

func (g *getter) acceptable(name, reported string) bool {
	if name != Etcd {
		return sameMinor(reported, g.kubernetes)
	}
	v, err := version.ParseGeneric(reported)
	return err == nil && v.AtLeast(version.MustParseGeneric(oldestEtcd))
}

func (g *getter) wantedVersion(name string) string {
	if name == Etcd {
		return oldestEtcd + " or newer"
	}
	return g.kubernetes + " or another patch of it"
}

// reportedVersion runs a binary to get its version, without a leading v.
func reportedVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	args := []string{"--version"}
	if filepath.Base(path) == Kubectl {
		args = []string{"version", "--client"}
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(`(?m)^(?:Kubernetes|etcd Version:|Client Version:) v?(\d+\.\d+\.\S+)`).FindSubmatch(out)
	if match == nil {
		return "", errNoVersion
	}
	return string(match[1]), nil
}
