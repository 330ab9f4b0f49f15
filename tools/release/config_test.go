package release

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

const tree = "../.."

// TestConfig: goreleaser reads the configuration, field by field, and it builds the programs with
// the flags of tools/build.
func TestConfig(t *testing.T) {
	project, err := config.Load(tree + "/.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Builds) != 1 {
		t.Fatalf("%d builds, want one", len(project.Builds))
	}
	of := project.Builds[0]
	if !slices.Equal(of.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(of.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("builds for %v and %v", of.Goos, of.Goarch)
	}
	text, err := os.ReadFile(tree + "/tools/build/build.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range slices.Concat(of.Flags, []string{"-s", "-w", "-buildid=", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}) {
		if !strings.Contains(string(text), `"`+flag+`"`) {
			t.Errorf("tools/build does not use %s", flag)
		}
		if !slices.Contains(slices.Concat(of.Flags, of.Env, strings.Fields(strings.Join(of.Ldflags, " "))), flag) {
			t.Errorf(".goreleaser.yaml does not use %s", flag)
		}
	}
	if len(project.Signs) != 1 || project.Signs[0].Artifacts != "checksum" {
		t.Errorf("signs %+v, want the checksums", project.Signs)
	}
}
