package nodeagents

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/test/envtest/internal/loglines"
)

// asProgram makes the test binary the program itself: klog has one logger in a process.
const asProgram = "DRA_STEWARD_TEST_AS_PROGRAM"

func runAsProgram() int {
	return cli.Run(context.Background(), os.Args[1:], cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, SetLogger: klog.SetLogger})
}

// log collects what a process writes.
type log struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

// TestLogs: every line of a node agent is JSON with a time, a level and a message, and none is
// noise: at its start, without a kubelet, and while the API server is away.
func TestLogs(t *testing.T) {
	client, err := kubernetes.NewForConfig(loud(cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	const name = "logs"
	if err := populateNode(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	out := &log{}
	agent := exec.CommandContext(t.Context(), os.Args[0], "node", "watch", "--node-name", name, "--kubeconfig", cluster.Kubeconfig(),
		"--pod-resources-socket", filepath.Join(t.TempDir(), "kubelet.sock"), "--kubelet-root", t.TempDir(),
		"--health-address", address, "--metrics-address", "", "--interval", "1s")
	agent.Env, agent.Stdout, agent.Stderr = append(os.Environ(), asProgram+"=1"), out, out
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	waits := func(what string, done func() bool) {
		t.Helper()
		// A reflector waits for up to a minute before it lists again.
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) { return done(), nil }); err != nil {
			t.Fatalf("%s:\n%s", what, out)
		}
	}
	says := func(text string) {
		t.Helper()
		waits(text+" is not in the log", func() bool { return strings.Contains(out.String(), text) })
	}
	says(`"watching"`)
	says(`kubelet.sock`)
	waits("not all has been read", func() bool { // what was not read before cannot be watched again
		answer, err := http.Get("http://" + address + "/readyz")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	if err := cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	says(`"Watching again","kind":"DeviceTaintRule"`)
	says(`"Watching again","kind":"ResourceSlice"`)
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if said := strings.Count(out.String(), "kubelet.sock: no such file"); said != 1 {
		t.Errorf("a source that cannot be read is logged %d times:\n%s", said, out)
	}
	for line := range strings.Lines(out.String()) {
		if err := loglines.Check(strings.TrimSpace(line)); err != nil {
			t.Error(err)
		}
	}
}
