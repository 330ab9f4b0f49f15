package uninstall

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestConfirm: nothing but a clear yes is one.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false} {
		var errs bytes.Buffer
		u := &uninstall{uninstallOptions: uninstallOptions{namespace: "devices"}, server: "https://api.example.com"}
		err := u.confirm(cmdutil.Streams{In: strings.NewReader(answer), Err: &errs})
		if (err == nil) != want || !strings.Contains(errs.String(), "namespace devices of https://api.example.com") {
			t.Errorf("answer %q: %v, asked %q", answer, err, &errs)
		}
	}
	for name, o := range map[string]uninstallOptions{"yes": {yes: true}, "dry run": {dryRun: cmdutil.DryRunClient}} {
		if err := (&uninstall{uninstallOptions: o}).confirm(cmdutil.Streams{Err: &bytes.Buffer{}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&uninstall{}).confirm(cmdutil.Streams{Err: &bytes.Buffer{}}); err == nil {
		t.Error("without standard input nothing is confirmed")
	}
}
