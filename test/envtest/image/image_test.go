package image_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/tools/build"
)

// tree is the root of the repository, user that of the image.
const (
	tree = "../../.."
	user = 65532
)

// root makes what the image holds, as the Dockerfile does, and returns the folder.
func root(t *testing.T, in, program string, env ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", in, "image-root", "PROGRAM="+program, "IMAGE_ROOT="+dir)
	command.Env = append(os.Environ(), env...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return dir
}

// inside prepares the program as the container runs it: the folder is its whole file
// system, it is an unknown user there, and may write nothing.
func inside(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("changing the root needs user 0; this is user %d", os.Getuid())
	}
	command := exec.CommandContext(t.Context(), "/program", args...)
	command.Dir, command.Env = "/", []string{}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return command
}

// TestImage builds what the image holds, and runs it from nothing but that.
func TestImage(t *testing.T) {
	dir := root(t, tree, "dra-steward")
	program := filepath.Join(dir, "program")
	t.Run("holds", func(t *testing.T) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if want := []string{"LICENSE", "THIRD-PARTY-LICENSES", "bom.json", "program"}; !slices.Equal(names, want) {
			t.Errorf("holds %q, want %q", names, want)
		}
	})
	t.Run("static", func(t *testing.T) { wantStatic(t, program) })
	t.Run("bill of materials", func(t *testing.T) { wantBill(t, dir) })
	t.Run("explains", func(t *testing.T) {
		out, err := inside(t, dir, "explain", "claim-devices-max").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var want bytes.Buffer
		cli.Run(t.Context(), []string{"explain", "claim-devices-max"}, cmdutil.Streams{Out: &want, Err: &want})
		if string(out) != want.String() {
			t.Errorf("got\n%s\nwant\n%s", out, want.String())
		}
	})
	t.Run("judges", func(t *testing.T) {
		command := inside(t, dir, "lint", "-")
		manifest, err := os.Open(filepath.Join(tree, "examples/denied/evicts-everything.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		defer manifest.Close()
		command.Stdin = manifest
		out, err := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != cmdutil.ExitFindings || !strings.Contains(string(out), "[taint-rule-everything]") {
			t.Errorf("exit code %d, %v: %s", code, err, out)
		}
	})
	t.Run("knows its version", func(t *testing.T) {
		out, err := inside(t, dir, "version", "-o", "json").CombinedOutput()
		stamp, stampErr := build.Read(t.Context(), tree)
		var got struct{ Version, Commit string }
		if err := errors.Join(err, stampErr, json.Unmarshal(out, &got)); err != nil || got.Version != stamp.Version || got.Commit != stamp.Commit {
			t.Errorf("%v: got %s, want %+v", err, out, stamp)
		}
	})
	for _, command := range []string{"serve", "controller", "node", "uninstall"} {
		t.Run("has "+command, func(t *testing.T) {
			if out, err := inside(t, dir, command, "--help").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	t.Run("serves", func(t *testing.T) { wantServes(t, dir) })
}

// wantServes starts the webhook with the one folder that it may write, which in a cluster is
// a volume, and asks whether it is ready.
func wantServes(t *testing.T, dir string) {
	t.Helper()
	command := inside(t, dir, "serve", "--cert-dir=/tls", "--self-signed=127.0.0.1", "--address=127.0.0.1:0", "--health-address=127.0.0.1:0",
		"--metrics-address=", "--shutdown-delay=0s")
	if err := os.Mkdir(filepath.Join(dir, "tls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "tls"), user, user); err != nil {
		t.Fatal(err)
	}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines, serving := bufio.NewScanner(log), struct{ Msg, Health string }{}
	for serving.Health == "" && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &serving) // other lines have no address
	}
	if serving.Health == "" {
		t.Fatalf("it ended: %v %v", lines.Err(), command.Wait())
	}
	answer, err := http.Get("http://" + serving.Health + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", answer.Status)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		continue
	}
	if err := command.Wait(); err != nil {
		t.Errorf("told to end: %v", err)
	}
}

// wantStatic: nothing is loaded at run time, and nothing of the machine that built it is in it.
func wantStatic(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP || header.Type == elf.PT_DYNAMIC {
			t.Errorf("has a segment %v: a scratch image has no loader", header.Type)
		}
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range info.Settings {
		if setting.Key == "CGO_ENABLED" && setting.Value != "0" || setting.Key == "-trimpath" && setting.Value != "true" || strings.HasPrefix(setting.Key, "vcs") {
			t.Errorf("built with %s=%s", setting.Key, setting.Value)
		}
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(tree)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(here+"/")) {
		t.Errorf("names the folder %s in which it was built", here)
	}
}

// wantBill compares the bill of materials with what the compiler wrote into the program.
func wantBill(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "bom.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BomFormat    string
		SerialNumber string
		Metadata     struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		Components []struct {
			Name, Version, Purl string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(data, &bill); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	about := bill.Metadata.Component
	if bill.BomFormat != "CycloneDX" || about.Name != "dra-steward" || len(about.Hashes) != 1 || about.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(program)) {
		t.Errorf("is about %+v", about)
	}
	if !strings.HasPrefix(about.Version, "v") || !strings.HasPrefix(bill.SerialNumber, "urn:uuid:") {
		t.Errorf("version %q, serial number %q", about.Version, bill.SerialNumber)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	want, got := []string{"std " + info.GoVersion}, []string{}
	for _, module := range info.Deps {
		want = append(want, module.Path+" "+module.Version)
	}
	for _, component := range bill.Components {
		got = append(got, component.Name+" "+component.Version)
		if len(component.Licenses) == 0 || component.Licenses[0].License.ID == "" {
			t.Errorf("%s has no license", component.Name)
		}
		if component.Purl != "pkg:golang/"+component.Name+"@"+component.Version {
			t.Errorf("%s has the package URL %s", component.Name, component.Purl)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("components\n%q, want\n%q", got, want)
	}
}

// TestDockerfile: the image is what image-root makes, and its user has no name and no rights.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(tree, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(string(text), "\nFROM scratch\n")
	const want = "COPY --from=build /image/ /\nUSER 65532:65532\nENTRYPOINT [\"/program\"]\n"
	if !found || last != want {
		t.Errorf("the last stage is\n%s\nwant\n%s", last, want)
	}
	if !strings.Contains(string(text), "RUN make image-root PROGRAM=${PROGRAM} GOOS=${TARGETOS} GOARCH=${TARGETARCH} IMAGE_ROOT=/image\n") {
		t.Error("the first stage does not make what the tests look at")
	}
}
