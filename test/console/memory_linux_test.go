package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	consolecmd "github.com/dra-steward/dra-steward/internal/cli/console"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// asProgram makes the test binary the command console, in a process of its own.
const asProgram = "DRA_STEWARD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	command := consolecmd.Command(cmdutil.Streams{In: strings.NewReader(""), Out: os.Stdout, Err: os.Stderr})
	command.SetArgs(os.Args[1:])
	if command.ExecuteContext(context.Background()) != nil {
		os.Exit(1)
	}
}

// Bounds in MiB: twice what test/results/performance-lab.md reports.
const (
	maxServer  = 1000
	maxBrowser = 1000
)

// TestMemory: what the console and a browser with its map take at 5,000 nodes with eight devices
// each: after the start, sixteen taints and scrolling through the map.
func TestMemory(t *testing.T) {
	b := open(t)
	b.size(1280, 900, "light")
	browser := chromedp.FromContext(b).Browser.Process().Pid
	_, empty := treeMemory(t, browser)
	server := newAPIServer(t, newLarge())
	address, pid := startConsole(t, server)
	b.run(chromedp.Navigate(address))
	b.await(`document.body.dataset.drawn !== undefined && document.getElementById("status-text").textContent.startsWith("live")`)
	for i := range 16 {
		b.taint(server, i)
	}
	var text string
	b.run(chromedp.Evaluate(frames, &text, awaitPromise))
	rss, pss := treeMemory(t, browser)
	held, err := testmemory.Of(pid, "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	most, err := testmemory.Of(pid, "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	now, peak := int(held>>20), int(most>>20)
	t.Logf("console: RSS %d MiB, peak %d MiB; browser: PSS %d MiB (%d MiB with an empty page), sum of RSS %d MiB", now, peak, pss, empty, rss)
	if peak > maxServer {
		t.Errorf("the console takes %d MiB, want at most %d", peak, maxServer)
	}
	if pss > maxBrowser {
		t.Errorf("the browser takes %d MiB, want at most %d", pss, maxBrowser)
	}
}

// startConsole runs the command console in a process, and returns the address that it prints.
func startConsole(t *testing.T, server *apiServer) (address string, pid int) {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(func() { listening.CloseClientConnections(); listening.Close() })
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "--kubeconfig", kubeconfigFor(t, listening.URL))
	command.Env, command.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "open ")), command.Process.Pid
}

// treeMemory is what a process and its descendants take, in MiB: the sum of RSS counts a page that
// they share for each of them, that of PSS once.
func treeMemory(t *testing.T, root int) (rss, pss int) {
	t.Helper()
	children := map[int][]int{}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		// The name before the parenthesis can have blanks; the parent is the second field after it.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		todo = append(todo, children[todo[0]]...)
		rss += mappedMemory(t, todo[0], "Rss:")
		pss += mappedMemory(t, todo[0], "Pss:")
	}
	return rss, pss
}

// mappedMemory is a line of /proc/PID/smaps_rollup, in MiB; 0 for a process that has ended.
func mappedMemory(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name); found {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	return 0
}
