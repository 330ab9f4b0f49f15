package doctest_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

var update = flag.Bool("update", false, "rewrite the outputs in console blocks")

// TestCommands runs the commands of console blocks and compares what they print.
func TestCommands(t *testing.T) {
	build(t) // so that go run has nothing to say about downloads
	for _, page := range pages(t) {
		for _, block := range page.Blocks {
			if block.Language == "console" {
				runBlock(t, page.Name, block)
			}
		}
	}
}

func runBlock(t *testing.T, page string, block doctest.Block) {
	t.Helper()
	var got strings.Builder
	for _, command := range block.Commands() {
		shell := exec.CommandContext(t.Context(), "sh", "-c", command.Line)
		shell.Dir = root
		out, _ := shell.CombinedOutput() // how it ended is in what go run prints
		fmt.Fprintf(&got, "$ %s\n%s", command.Line, out)
		if diff := cmp.Diff(command.Output, string(out)); diff != "" && !*update {
			t.Errorf("%s:%d: %s: -page +output (go test ./tools/doctest -update rewrites it):\n%s", page, command.At, command.Line, diff)
		}
	}
	if *update && got.String() != block.Text {
		name := filepath.Join(root, page)
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.Replace(string(text), block.Text, got.String(), 1)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dra-steward")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/dra-steward")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
