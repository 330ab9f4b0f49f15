package image_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// keyURL is where a release has the public part of its key.
const keyURL = "https://keys.example.com/dra-steward.asc"

// A chartKey signs charts. It has a keyring with the secret part, and one with the public part.
type chartKey struct{ fingerprint, secret, public string }

func newChartKey(t *testing.T) chartKey {
	t.Helper()
	entity, err := openpgp.NewEntity("dra-steward", "", "dra-steward@example.invalid", &packet.Config{RSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}
	keyring := func(write func(io.Writer) error) string {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "keyring.gpg")
		writeFile(t, file, text.Bytes())
		return file
	}
	return chartKey{
		fingerprint: fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint),
		secret:      keyring(func(w io.Writer) error { return entity.SerializePrivate(w, nil) }),
		public:      keyring(entity.Serialize),
	}
}

// verify does what "helm verify" does, and returns what it prints.
func (k chartKey) verify(archive string) (string, error) {
	verify := action.NewVerify()
	verify.Keyring = k.public
	err := verify.Run(archive)
	return verify.Out, err
}

// releasedChart writes the chart as it is when its version is tagged, as the release workflow does.
func releasedChart(t *testing.T, key chartKey) (dir string) {
	t.Helper()
	source := t.TempDir()
	if err := os.CopyFS(filepath.Join(source, "charts"), os.DirFS(filepath.Join(tree, "charts"))); err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile(filepath.Join(tree, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(source, "CHANGELOG.md"), bytes.Replace(changelog, []byte("## [Unreleased]"), []byte("## [0.1.0] - 2027-01-02"), 1))
	dir = filepath.Join(t.TempDir(), "dra-steward")
	command := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(tree, "image"), ".", "chart", "-tree", source, "-key-fingerprint", key.fingerprint, "-key-url", keyURL, dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return dir
}

// TestChartProvenance: Helm verifies the chart of a release with the key that the chart names to Artifact Hub, and
// refuses it after one byte of the chart or of its provenance is changed, without provenance, and with another key.
func TestChartProvenance(t *testing.T) {
	key := newChartKey(t)
	pack := action.NewPackage()
	pack.Sign, pack.Key, pack.Keyring, pack.Destination = true, "dra-steward", key.secret, t.TempDir()
	archive, err := pack.Run(releasedChart(t, key), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := key.verify(archive)
	if want := "Using Key With Fingerprint: " + key.fingerprint + "\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	packed, err := loader.Load(archive)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := packed.Metadata.Annotations["artifacthub.io/signKey"], "fingerprint: "+key.fingerprint+"\nurl: "+keyURL+"\n"; got != want {
		t.Errorf("Artifact Hub shows %q, want %q", got, want)
	}

	key.refuses(t, archive)
	newChartKey(t).refusesFor(t, archive, "another key", "unknown entity")
	if err := os.Remove(archive + ".prov"); err != nil {
		t.Fatal(err)
	}
	key.refusesFor(t, archive, "no provenance", "could not load provenance file")
}

// refuses changes a byte of the chart or of its provenance, one after the other.
func (k chartKey) refuses(t *testing.T, archive string) {
	t.Helper()
	for _, changed := range []struct {
		file, reason string
		at           func(text []byte) int
	}{
		{archive, "sha256 sum does not match", func([]byte) int { return 0 }},
		{archive, "sha256 sum does not match", func(text []byte) int { return len(text) / 2 }},
		{archive, "sha256 sum does not match", func(text []byte) int { return len(text) - 1 }},
		{archive + ".prov", "openpgp: invalid signature", func(text []byte) int { return bytes.Index(text, []byte("sha256:")) + len("sha256:") }},
	} {
		text, err := os.ReadFile(changed.file)
		if err != nil {
			t.Fatal(err)
		}
		other, at := bytes.Clone(text), changed.at(text)
		other[at] ^= 1
		writeFile(t, changed.file, other)
		k.refusesFor(t, archive, fmt.Sprintf("byte %d of %s", at, filepath.Base(changed.file)), changed.reason)
		writeFile(t, changed.file, text)
	}
	if out, err := k.verify(archive); err != nil {
		t.Errorf("what was changed is as before: %v %s", err, out)
	}
}

func (k chartKey) refusesFor(t *testing.T, archive, what, reason string) {
	t.Helper()
	if out, err := k.verify(archive); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v, %q, want an error with %q", what, err, out, reason)
	}
}

func writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
