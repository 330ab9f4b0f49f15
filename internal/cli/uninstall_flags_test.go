package cli

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"strings"
	"testing"
)

func TestUninstallRefusesFlags(t *testing.T) {
	for _, args := range [][]string{{"--taint-rules=drop"}, {"--namespace="}, {"--kubeconfig=/does/not/exist"}} {
		var out bytes.Buffer
		if code := Run(t.Context(), append([]string{"uninstall"}, args...), cmdutil.Streams{Out: &out, Err: &out}); code != cmdutil.ExitFailed || !strings.Contains(out.String(), "--") {
			t.Errorf("%q: exit code %d, %s", args, code, &out)
		}
	}
}
