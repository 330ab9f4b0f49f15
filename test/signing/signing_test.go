package signing

import (
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A signer runs cosign in a folder with a pair of keys.
type signer struct {
	*testing.T
	program, dir string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("compiles cosign, which takes minutes; make test-long runs it")
	}
	find := exec.CommandContext(t.Context(), "go", "tool", "-n", "cosign")
	find.Env, find.Stderr = append(os.Environ(), "CGO_ENABLED=0"), t.Output()
	program, err := find.Output()
	if err != nil {
		t.Fatal(find, err)
	}
	s := signer{t, strings.TrimSpace(string(program)), t.TempDir()}
	s.must("generate-key-pair")
	return s
}

func (s signer) cosign(arguments ...string) (string, error) {
	command := exec.CommandContext(s.Context(), s.program, arguments...)
	command.Dir, command.Env = s.dir, append(os.Environ(), "COSIGN_PASSWORD=only for this test", "HOME="+s.dir)
	out, err := command.CombinedOutput()
	return string(out), err
}

func (s signer) must(arguments ...string) {
	s.Helper()
	if out, err := s.cosign(arguments...); err != nil {
		s.Fatalf("cosign %v: %v\n%s", arguments, err, out)
	}
}

// refuses fails unless cosign ends with an error that has the text.
func (s signer) refuses(text string, arguments ...string) {
	s.Helper()
	out, err := s.cosign(arguments...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(out, text) {
		s.Errorf("cosign %v: %v, want an error with %q\n%s", arguments, err, text, out)
	}
}

// indexOf is an index with an image of one layer, and has the digests that the bytes give.
func indexOf(t *testing.T, layer string) v1.ImageIndex {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(layer), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
}

// push writes the index under the tag and returns its reference by digest.
func push(t *testing.T, tag name.Tag, index v1.ImageIndex) string {
	t.Helper()
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(digest.String()).String()
}

// TestImage: cosign verifies an image that was signed, with every image of its index. It refuses
// the image when a byte has changed, by digest and by tag, and another key.
func TestImage(t *testing.T) {
	s := newSigner(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/dra-steward/dra-steward:0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	verify := []string{"verify", "--key=cosign.pub", "--insecure-ignore-tlog=true", "--allow-http-registry"}

	signed := push(t, tag, indexOf(t, "a program"))
	s.refuses("no signatures found", append(verify, signed)...)
	s.must("sign", "--key=cosign.key", "--tlog-upload=false", "--yes", "--recursive", "--allow-http-registry", signed)
	s.must(append(verify, signed)...)
	s.must(append(verify, tag.String())...)

	changed := push(t, tag, indexOf(t, "b program"))
	s.refuses("no signatures found", append(verify, changed)...)
	s.refuses("no signatures found", append(verify, tag.String())...)

	other := newSigner(t)
	other.refuses("invalid signature", append(verify, signed)...)
}

// TestChecksums: the same for a file.
func TestChecksums(t *testing.T) {
	s := newSigner(t)
	file := filepath.Join(s.dir, "checksums.txt")
	text := []byte(strings.Repeat("0123456789abcdef", 4) + "  dra-steward_0.1.0_linux_amd64.tar.gz\n")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("sign-blob", "--key=cosign.key", "--tlog-upload=false", "--yes", "--bundle=checksums.txt.sigstore.json", file)
	verify := []string{"verify-blob", "--key=cosign.pub", "--insecure-ignore-tlog=true", "--bundle=checksums.txt.sigstore.json", file}
	s.must(verify...)
	text[0] = '1'
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.refuses("invalid signature", verify...)
}
