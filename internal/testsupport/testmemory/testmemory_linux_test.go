package testmemory_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

func TestOf(t *testing.T) {
	held, err := testmemory.Of(os.Getpid(), "VmRSS")
	if most, err2 := testmemory.Of(os.Getpid(), "VmHWM"); err != nil || err2 != nil || held < 1<<20 || most < held/2 {
		t.Errorf("%d (%v) of at most %d (%v)", held, err, most, err2)
	}
	if _, err := testmemory.Of(os.Getpid(), "VmNone"); err == nil || !strings.Contains(err.Error(), "VmNone") {
		t.Errorf("a key that does not exist: %v", err)
	}
	if _, err := testmemory.Of(-1, "VmRSS"); err == nil {
		t.Error("no error for a process that does not exist")
	}
}

// TestRun: what this process holds does not count.
func TestRun(t *testing.T) {
	held := make([]byte, 200<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	most, err := testmemory.Run(exec.Command("sh", "-c", `text=$(head -c 20000000 /dev/zero | tr '\0' a) && sleep 0.1 && [ ${#text} = 20000000 ]`))
	if err != nil || most < 20<<20-1<<20 || most > 150<<20 {
		t.Errorf("%d bytes (%v), want about 20 to 100 million", most, err)
	}
	if _, err := testmemory.Run(exec.Command("false")); err == nil {
		t.Error("no error for a command that fails")
	}
	runtime.KeepAlive(held)
}

// TestCommand: a program that holds more than its limit ends, and others do not.
func TestCommand(t *testing.T) {
	const script = `text=$(head -c "$0" /dev/zero | tr '\0' a) && [ ${#text} = "$0" ]`
	for bytes, fits := range map[string]bool{"1000000": true, "100000000": false} {
		if out, err := testmemory.Command(t, 32<<20, "sh", "-c", script, bytes).CombinedOutput(); (err == nil) != fits {
			t.Errorf("%s bytes: %v, want an error: %v\n%s", bytes, err, !fits, out)
		}
	}
}
