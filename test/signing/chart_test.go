package signing

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-containerregistry/pkg/registry"
	"sigs.k8s.io/yaml"
)

// A packager has what the release workflow has when it packages the chart.
type packager struct {
	*testing.T
	dir, script string
}

func newPackager(t *testing.T) packager {
	t.Helper()
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("compiles helm, which takes minutes; make test-long runs it")
	}
	p := packager{t, t.TempDir(), step(t, "Package the chart with its provenance")}
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../node/testdata/helm", "-o", filepath.Join(p.dir, "bin/tools/helm"), "helm.sh/helm/v3/cmd/helm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	if err := os.CopyFS(filepath.Join(p.dir, "bin/chart/dra-steward"), os.DirFS("../../charts/dra-steward")); err != nil {
		t.Fatal(err)
	}
	return p
}

// step is the script of a step of the release workflow.
func step(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Name, Run string } }
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if step.Name == name {
				return step.Run
			}
		}
	}
	t.Fatalf("the workflow has no step %q", name)
	return ""
}

// run runs a program in the folder of the workflow.
func (p packager) run(env []string, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(p.Context(), name, arguments...)
	command.Dir, command.Env = p.dir, append(append(os.Environ(), "HOME="+p.dir, "VERSION=v0.1.0"), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

func (p packager) pack(key pgpKey, fingerprint string) (string, error) {
	return p.run([]string{"KEY=" + base64.StdEncoding.EncodeToString(key.secret), "PASSPHRASE=" + key.passphrase, "FINGERPRINT=" + fingerprint},
		"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", p.script)
}

// A pgpKey is an OpenPGP key. Its secret part is encrypted if it has a passphrase.
type pgpKey struct {
	fingerprint, passphrase string
	secret, public          []byte
}

func newKey(t *testing.T, passphrase string) pgpKey {
	t.Helper()
	var secret, public bytes.Buffer
	entity, err := openpgp.NewEntity("dra-steward", "", "dra-steward@example.invalid", &packet.Config{RSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	if passphrase != "" {
		if err := entity.EncryptPrivateKeys([]byte(passphrase), nil); err != nil {
			t.Fatal(err)
		}
		err = entity.SerializePrivateWithoutSigning(&secret, nil)
	} else {
		err = entity.SerializePrivate(&secret, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pgpKey{fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint), passphrase, secret.Bytes(), public.Bytes()}
}

// refuses: the step fails without the key, with a wrong passphrase of the second key, and with the first key when the
// release names the second one.
func (p packager) refuses(key, other pgpKey) {
	p.Helper()
	wrong := other
	wrong.passphrase = "another one"
	for what, one := range map[string]struct {
		key         pgpKey
		fingerprint string
	}{"no key": {pgpKey{}, key.fingerprint}, "passphrase": {wrong, wrong.fingerprint}, "fingerprint": {key, other.fingerprint}} {
		if out, err := p.pack(one.key, one.fingerprint); err == nil {
			p.Errorf("%s: want an error\n%s", what, out)
		}
	}
}

// TestChart: the step of the release workflow packages the chart with Helm itself. The provenance is pushed with the
// chart. Helm verifies what it pulls, and refuses to install another chart with the same provenance.
func TestChart(t *testing.T) {
	p := newPackager(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	charts := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/dra-steward/charts"
	key, other := newKey(t, ""), newKey(t, "only for this test")
	p.refuses(key, other)

	keyring := filepath.Join(p.dir, "public.gpg")
	for _, key := range []pgpKey{other, key} {
		if out, err := p.pack(key, key.fingerprint); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := os.WriteFile(keyring, key.public, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := p.run(nil, "bin/tools/helm", "push", "bin/chart/dra-steward-0.1.0.tgz", charts, "--plain-http"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		pull := []string{"pull", charts + "/dra-steward", "--version=0.1.0", "--plain-http", "--destination=" + t.TempDir(), "--verify"}
		if out, err := p.run(nil, "bin/tools/helm", append(pull, "--keyring="+keyring)...); err != nil || !strings.Contains(out, key.fingerprint) {
			t.Errorf("%v\n%s", err, out)
		}
	}

	// The chart with another byte, below the provenance of the one that was signed.
	archive := filepath.Join(p.dir, "bin/chart/dra-steward-0.1.0.tgz")
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	text[9] ^= 1 // the operating system in the header of gzip: Helm still reads the chart
	if err := os.WriteFile(archive, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(nil, "bin/tools/helm", "push", archive, charts, "--plain-http"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := p.run(nil, "bin/tools/helm", "install", "a", charts+"/dra-steward", "--version=0.1.0", "--plain-http", "--verify", "--keyring="+keyring, "--dry-run=client")
	if err == nil || !strings.Contains(out, "sha256 sum does not match") {
		t.Errorf("helm install --verify of a changed chart: %v\n%s", err, out)
	}
}
