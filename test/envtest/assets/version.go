package assets

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// DefaultVersion is the Kubernetes version used when none is asked for.
const DefaultVersion = "1.37.0"

// VersionVariable is the environment variable that sets the version for
// everything that does not ask for one itself.
const VersionVariable = "DRA_STEWARD_KUBERNETES"

// etcdOf is the version of etcd that is built for a Kubernetes version: of the minor with which that
// version is released.
func etcdOf(kubernetes string) string {
	if version.MustParseGeneric(kubernetes).LessThan(version.MustParseGeneric("1.37")) {
		return "3.6.8"
	}
	return "3.7.3"
}

//go:embed *.mod *.sum
var moduleFiles embed.FS

// release is a Kubernetes version with the two modules it is built from.
type release struct {
	kubernetes string
	kube, etcd module
}

// module is a main module whose dependencies are the binaries' sources.
type module struct {
	mod, sum []byte
}

// Versions lists the Kubernetes versions that can be built, oldest first.
func Versions() []string {
	entries, err := moduleFiles.ReadDir(".")
	if err != nil {
		return nil // an embedded root is always readable
	}
	var versions []string
	for _, entry := range entries {
		name, isModule := strings.CutSuffix(entry.Name(), ".mod")
		if v, isKube := strings.CutPrefix(name, "kube-"); isModule && isKube {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b string) int {
		order, _ := version.MustParseGeneric(a).Compare(b)
		return order
	})
	return versions
}

func loadModule(name string) (m module, err error) {
	if m.mod, err = moduleFiles.ReadFile(name + ".mod"); err != nil {
		return module{}, err
	}
	m.sum, err = moduleFiles.ReadFile(name + ".sum")
	return m, err
}

// resolve finds the release for a version, a minor, or "".
func resolve(wanted string) (release, error) {
	source := "option Kubernetes"
	if wanted == "" {
		wanted, source = os.Getenv(VersionVariable), VersionVariable
	}
	if wanted == "" {
		wanted = DefaultVersion
	}
	trimmed := strings.TrimPrefix(wanted, "v")
	for _, v := range slices.Backward(Versions()) {
		if v == trimmed || strings.HasPrefix(v, trimmed+".") && strings.Count(trimmed, ".") == 1 {
			return loadRelease(v)
		}
	}
	return release{}, fmt.Errorf("%s: Kubernetes %q is not available; choose one of %s or a minor of these",
		source, wanted, strings.Join(Versions(), ", "))
}

func loadRelease(kubernetes string) (release, error) {
	kube, err := loadModule("kube-" + kubernetes)
	if err != nil {
		return release{}, err
	}
	etcd, err := loadModule("etcd-" + etcdOf(kubernetes))
	return release{kubernetes: kubernetes, kube: kube, etcd: etcd}, err
}

// sameMinor says whether two versions such as 1.37.0 and v1.37.2 differ at most
// in the patch.
func sameMinor(a, b string) bool {
	va, errA := version.ParseGeneric(a)
	vb, errB := version.ParseGeneric(b)
	return errA == nil && errB == nil && va.Major() == vb.Major() && va.Minor() == vb.Minor()
}
