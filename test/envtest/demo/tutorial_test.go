package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// tutorial is the page that shows what the demonstration prints, and that readers follow while it keeps running.
const tutorial = "../../../docs/tutorial.md"

// TestTutorial follows the page: it types the commands of its blocks typed=demo in order, and
// compares what they print. With DRA_STEWARD_RECORD=yes it writes that into the page.
func TestTutorial(t *testing.T) {
	page, err := doctest.Read(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	d := startDemo(t, "--keep")
	d.readTo(t, "  export KUBECONFIG=")
	_, export, _ := strings.Cut(d.text.String(), "  export ")
	export = "export " + export
	d.readTo(t, "  dra-steward drain")
	typed := 0
	for _, block := range page.Blocks {
		if block.Options["typed"] != "demo" {
			continue
		}
		var printed strings.Builder
		for _, command := range block.Commands() {
			if strings.HasPrefix(command.Line, "dra-steward why ") {
				d.typed(t, export, "until "+unschedulable("training-1")+"; do sleep 0.2; done")
			}
			out := d.typed(t, export, command.Line)
			printed.WriteString("$ " + command.Line + "\n")
			if text := strings.TrimRight(out, "\n"); text != "" {
				printed.WriteString(indent(text) + "\n")
			}
			typed++
		}
		expectTyped(t, block, steady(printed.String())+"\n")
	}
	if typed < 8 {
		t.Errorf("the page has %d commands for the demonstration", typed)
	}
	d.interrupt(t)
	if code := d.end(t); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, &d.text)
	}
	d.expectNoTrace(t)
}

// typed runs a command as in another terminal, and returns its output.
func (d *demonstration) typed(t *testing.T, export, line string) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "timeout", "60", "sh", "-c", export+"\n"+line)
	shell.Dir, shell.Env = d.Dir, append(os.Environ(), "HOME="+t.TempDir(), actAsDemo+"=yes")
	out, err := shell.CombinedOutput()
	if shell.ProcessState == nil {
		t.Fatal(line, err)
	}
	return string(out)
}

func expectTyped(t *testing.T, block doctest.Block, got string) {
	t.Helper()
	if got == block.Text {
		return
	}
	if os.Getenv(record) == "" {
		t.Errorf("docs/tutorial.md:%d: %s=yes writes this: -page +output\n%s", block.Line, record, cmp.Diff(block.Text, got))
		return
	}
	text, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tutorial, []byte(strings.Replace(string(text), block.Text, got, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
