// Package console runs the console on a test cluster, and shows it in a browser.
package console

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// Run runs `dra-steward console` with the kubeconfig and further arguments until the test
// ends, and returns the address to open first.
func Run(t testing.TB, kubeconfig string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	var problems strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, append([]string{"console", "--kubeconfig=" + kubeconfig}, args...), cmdutil.Streams{In: strings.NewReader(""), Out: in, Err: &problems})
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != cmdutil.ExitClean {
			t.Errorf("the console ends with %d: %s", code, problems.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "open "))
}

// Chromium returns the path of Chromium. It skips the test where there is none.
func Chromium(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install --no-install-recommends chromium")
	}
	return path
}
