package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/dra-steward/dra-steward/tools/build"
)

// older and newer are the versions that TestInstall releases.
const older, newer = "0.1.0", "0.2.0"

// releasesVariable holds the folder with the releases: a folder for each version, with images and chart.
const releasesVariable = "DRA_STEWARD_NODE_TEST_RELEASES"

// buildReleases makes the images and charts of both versions as the release workflow does, the images for this
// machine in the layout of the Open Container Initiative, outside of the namespaces: the bill of materials asks
// the module proxy.
func buildReleases(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "dra-steward", "node-releases")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for _, version := range []string{older, newer} {
		programs := []string{build.Steward}
		if version == older {
			programs = append(programs, build.Scheduler)
		}
		for _, program := range programs {
			if err := runImage(ctx, version, "save", "-program", program, "-platforms", "linux/"+runtime.GOARCH, filepath.Join(dir, version, program)); err != nil {
				return "", err
			}
		}
		tagged := filepath.Join(dir, version, "tree")
		if err := tagTree(tagged, version); err != nil {
			return "", fmt.Errorf("tree of %s: %w", version, err)
		}
		if err := runImage(ctx, version, "chart", "-tree", tagged, filepath.Join(dir, version, "chart", build.Steward)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// runImage runs the program image for a version.
func runImage(ctx context.Context, version string, args ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"run", "."}, args...)...)
	command.Dir, command.Env = filepath.Join(tree, "image"), append(os.Environ(), "VERSION=v"+version)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s for %s: %w %s", command, version, err, out)
	}
	return nil
}

// tagTree copies chart and changelog as RELEASE.md wants them on the commit with the tag of the version.
func tagTree(dir, version string) error {
	chart := filepath.Join("charts", build.Steward)
	if err := os.CopyFS(filepath.Join(dir, chart), os.DirFS(filepath.Join(tree, chart))); err != nil {
		return err
	}
	metadata := filepath.Join(chart, "Chart.yaml")
	return errors.Join(
		rewrite(filepath.Join(tree, metadata), filepath.Join(dir, metadata), `(?m)^(version|appVersion): .*$`, "${1}: "+version),
		rewrite(filepath.Join(tree, "CHANGELOG.md"), filepath.Join(dir, "CHANGELOG.md"), `(?s)\A(.*?\n)## \[[^\n]*`, "${1}## ["+version+"] - 2027-01-02"))
}

func rewrite(from, to, pattern, text string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, regexp.MustCompile(pattern).ReplaceAll(content, []byte(text)), 0o600)
}

// push pushes the images and charts of both versions.
func (r *release) push() {
	r.Helper()
	r.digests = map[string]string{}
	for _, version := range []string{older, newer} {
		r.digests[version] = r.pushImage(version, build.Steward)
		r.pushChart(version)
	}
	r.scheduler = r.pushImage(older, build.Scheduler)
	if r.digests[older] == r.digests[newer] {
		r.Fatalf("%s and %s are the same image %s", older, newer, r.digests[older])
	}
}

// pushChart does with the chart what the release workflow does, and checks it as helm does.
func (r *release) pushChart(version string) {
	r.Helper()
	chart, dir := filepath.Join(os.Getenv(releasesVariable), version, "chart", build.Steward), tempDir(r)
	r.helm("lint", "--strict", chart)
	r.helm("package", chart, "--destination", dir)
	r.helm("push", filepath.Join(dir, "dra-steward-"+version+".tgz"), "oci://"+r.registry+"/charts", "--plain-http")
}

// chart are arguments of helm for the chart of the version in the registry.
func (r *release) chart(command string) []string {
	return []string{command, releaseName, "oci://" + r.registry + "/charts/dra-steward", "--version", r.version, "--plain-http", "--wait", "--timeout", "5m"}
}

// pushImage pushes the image of a program with its bill of materials, and returns its digest.
func (r *release) pushImage(version, program string) string {
	r.Helper()
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatalf("the image of %s %s: %v", program, version, err)
		}
	}
	all, err := layout.ImageIndexFromPath(filepath.Join(os.Getenv(releasesVariable), version, program))
	must(err)
	indexes, err := partial.FindIndexes(all, func(v1.Descriptor) bool { return true })
	must(err)
	bills, err := partial.FindImages(all, func(v1.Descriptor) bool { return true })
	must(err)
	if len(indexes) != 1 || len(bills) != 1 {
		r.Fatalf("%s %s has %d images and %d bills of materials, want one each", program, version, len(indexes), len(bills))
	}
	tag, err := name.NewTag(r.registry + "/" + program + ":" + version)
	must(err)
	must(remote.WriteIndex(tag, indexes[0], remote.WithContext(r.Context())))
	bill, err := bills[0].Digest()
	must(err)
	must(remote.Write(tag.Context().Digest(bill.String()), bills[0], remote.WithContext(r.Context())))
	r.checkBill(tag, bill)
	digest, err := indexes[0].Digest()
	must(err)
	return digest.String()
}
