package cmdutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestTypedFlag: an error about the connection names the flag that was typed.
func TestTypedFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	const text = "apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {cluster: a, user: a}}]\n" +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--context=prd":          `--context prd: context "prd" does not exist; did you mean "prod"?`,
		"--cluster=b":            `--cluster b: cluster "b" does not exist`,
		"--user=b":               `--user b: auth info "b" does not exist`,
		"--request-timeout=soon": "--request-timeout soon: ",
	} {
		var client Client
		command := &cobra.Command{Use: "a"}
		client.AddFlags(command)
		if err := command.ParseFlags([]string{"--kubeconfig=" + file, args}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Config(Streams{Err: &strings.Builder{}}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
