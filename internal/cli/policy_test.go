package cli_test

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"io"
	"os"
	"strings"
	"testing"
)

// TestPolicyPage fails when docs/policies.md says something else than the policies.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := cli.Run(t.Context(), []string{"policy", "docs"}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); code != cmdutil.ExitClean {
		t.Fatalf("exit code %d", code)
	}
	if !bytes.Equal(page, out.Bytes()) {
		t.Error("docs/policies.md is out of date: go run ./cmd/dra-steward policy docs > docs/policies.md")
	}
}
