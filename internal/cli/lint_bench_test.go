package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// BenchmarkLint10000 lints 10,000 documents of resource.k8s.io from public manifests in
// a process of its own: as one file each, as a single file, and as a single file on one
// processor. It reports documents per second and per second of processor time, and, on
// Linux, the greatest memory of the process and how many of its threads are running or
// wait for a processor: that is how many processors it would use, however busy the
// machine is with other things.
func BenchmarkLint10000(b *testing.B) {
	const documents = 10_000
	program := filepath.Join(b.TempDir(), "dra-steward")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	files, file := b.TempDir(), filepath.Join(b.TempDir(), "all.yaml")
	size := spread(b, documents, files, file)
	for _, layout := range []struct {
		name, arg  string
		processors int
	}{
		{"files", files, runtime.NumCPU()},
		{"one-file", file, runtime.NumCPU()},
		{"one-processor", file, 1},
	} {
		b.Run(layout.name, func(b *testing.B) {
			var used, wanted time.Duration
			memory := 0
			for b.Loop() {
				command := exec.CommandContext(b.Context(), program, "lint", "--config", "", "-o", "json", layout.arg)
				command.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", layout.processors))
				kilobytes, threads := run(b, command)
				memory, wanted = max(memory, kilobytes), wanted+threads
				used += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
			}
			b.SetBytes(size)
			b.ReportMetric(float64(documents*b.N)/b.Elapsed().Seconds(), "documents/s")
			b.ReportMetric(float64(documents*b.N)/used.Seconds(), "documents/cpu-s")
			b.ReportMetric(wanted.Seconds()/b.Elapsed().Seconds(), "processors")
			b.ReportMetric(float64(memory)/1024, "MB-peak")
		})
	}
}

// run runs a command and returns its greatest resident memory in KB and the time that
// its threads ran or waited for a processor, as far as /proc tells it.
func run(b *testing.B, command *exec.Cmd) (memory int, wanted time.Duration) {
	b.Helper()
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				b.Fatal(err)
			}
			return memory, wanted
		case <-tick.C:
			if peak, err := testmemory.Of(command.Process.Pid, "VmHWM"); err == nil {
				memory = max(memory, int(peak>>10))
			}
			wanted = max(wanted, scheduled(command.Process.Pid))
		}
	}
}

func scheduled(process int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))
	for _, thread := range threads {
		var ran, waited time.Duration
		if text, err := os.ReadFile(thread); err == nil {
			_, _ = fmt.Sscan(string(text), &ran, &waited)
		}
		sum += ran + waited
	}
	return sum
}

// spread writes documents of the corpus, again and again, into a file each and into one
// file, and returns their size.
func spread(b *testing.B, documents int, folder, all string) (size int64) {
	b.Helper()
	var texts [][]byte
	for document, err := range (manifest.Reader{}).Walk(corpus.Folder(b)) {
		if err == nil && document.Ours() {
			text, err := yaml.JSONToYAML(document.Raw)
			if err != nil {
				b.Fatal(err)
			}
			texts = append(texts, text)
		}
	}
	var one bytes.Buffer
	for i := range documents {
		text := texts[i%len(texts)]
		size += int64(len(text))
		one.WriteString("---\n")
		one.Write(text)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%05d.yaml", i)), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(all, one.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return size
}
