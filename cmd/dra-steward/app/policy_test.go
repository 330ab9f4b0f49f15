package app_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/cmd/dra-steward/app"
)

// TestPolicyPage fails when docs/policies.md says something else than the policies.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := app.Run(t.Context(), []string{"policy", "docs"}, app.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); code != app.ExitClean {
		t.Fatalf("exit code %d", code)
	}
	if !bytes.Equal(page, out.Bytes()) {
		t.Error("docs/policies.md is out of date: go run ./cmd/dra-steward policy docs > docs/policies.md")
	}
}
