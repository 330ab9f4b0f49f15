package cmdutil

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0": 0, "0d": 0,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "1d2d", "1d-3h", "1d24h", "-1d", "7 d", "1w", "999999999999d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDryRun(t *testing.T) {
	var d DryRun
	for text, want := range map[string]DryRun{"none": "", "client": DryRunClient, "server": DryRunServer} {
		if err := d.Set(text); err != nil || d != want || d.String() != text {
			t.Errorf("%s: %q, %v", text, d, err)
		}
	}
	if err := d.Set("true"); err == nil || !strings.Contains(err.Error(), "none, client, server") {
		t.Error(err)
	}
}

// TestProgress: a short wait shows nothing; a long one shows the newest text, and leaves no
// line behind.
func TestProgress(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Second: "", 2100 * time.Millisecond: "\r\x1b[Kreading pods: 500 (2 s)\r\x1b[K"} {
		synctest.Test(t, func(t *testing.T) {
			var terminal bytes.Buffer
			p := Streams{Terminal: &terminal}.Progress("connecting")
			p.Say("reading %s: %d", "pods", 500)
			<-time.After(wait)
			p.End()
			p.End()
			if got := terminal.String(); got != want {
				t.Errorf("after %v: %q, want %q", wait, got, want)
			}
		})
	}
	var none *Progress = Streams{}.Progress("connecting")
	none.Say("nothing")
	none.End()
}
