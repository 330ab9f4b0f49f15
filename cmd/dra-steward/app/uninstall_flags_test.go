package app

import (
	"bytes"
	"strings"
	"testing"
)

func TestUninstallRefusesFlags(t *testing.T) {
	for _, args := range [][]string{{"--taint-rules=drop"}, {"--namespace="}, {"--kubeconfig=/does/not/exist"}} {
		var out bytes.Buffer
		if code := Run(t.Context(), append([]string{"uninstall"}, args...), Streams{Out: &out, Err: &out}); code != ExitFailed || !strings.Contains(out.String(), "--") {
			t.Errorf("%q: exit code %d, %s", args, code, &out)
		}
	}
}
