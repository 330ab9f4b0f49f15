//go:build unix

package doctest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// TestReadme does what README.md shows, from top to bottom in a fresh clone: the commands of
// console blocks print what the page shows, those of sh blocks end without an error. It runs
// once with the caches of this machine and once without any, as a new user has it. A command
// takes at most twice as long as the page says.
func TestReadme(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("follows README.md twice; without caches its demo compiles Kubernetes, which takes more than 10 minutes: make test-long runs it")
	}
	t.Run("with the caches of this machine", func(t *testing.T) { followReadme(t, false) })
	t.Run("without caches", func(t *testing.T) { followReadme(t, true) })
}

// followReadme clones what is committed, and runs the blocks of its page.
func followReadme(t *testing.T, first bool) {
	origin, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := reader{T: t, dir: filepath.Join(t.TempDir(), "dra-steward"), env: os.Environ()}
	if first {
		cache := t.TempDir()
		r.env = append(r.env, "XDG_CACHE_HOME="+cache, "GOCACHE="+filepath.Join(cache, "go-build"))
	}
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", origin, r.dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doctest.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	r.sh("go build -o /dev/null ./cmd/dra-steward") // go run reports nothing but the output then
	ran := 0
	for i, block := range page.Blocks {
		before, after := around(string(text), page.Blocks, i)
		switch {
		case block.Language == "console":
			r.compare(block)
		case block.Language == "sh" && !strings.Contains(before, notRun):
			r.time(block, after, first)
		default:
			continue
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("only %d blocks were run", ran)
	}
	if changed, _ := r.sh("git status --porcelain"); changed != "" {
		t.Errorf("the commands changed the tree:\n%s", changed)
	}
}

// notRun is how the page marks a block that cannot run here. The reason follows.
const notRun = "<!-- not run: "

// A reader types commands in a clone.
type reader struct {
	*testing.T
	dir string
	env []string
}

// sh runs a command with the processes that it starts, and returns all output.
func (r reader) sh(line string) (string, error) {
	r.Helper()
	var out bytes.Buffer
	shell := exec.CommandContext(r.Context(), "sh", "-c", line)
	shell.Dir, shell.Env, shell.Stdout, shell.Stderr = r.dir, r.env, &out, &out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGINT) }
	err := shell.Run()
	return out.String(), err
}

func (r reader) compare(block doctest.Block) {
	r.Helper()
	for _, command := range block.Commands() {
		out, _ := r.sh(command.Line) // the output has how it ended
		if diff := cmp.Diff(command.Output, out); diff != "" {
			r.Errorf("README.md:%d: %s: -page +output:\n%s", command.At, command.Line, diff)
		}
	}
}

// time runs a block, and again if the page says how long later runs take.
func (r reader) time(block doctest.Block, after string, first bool) {
	r.Helper()
	named := durations(after)
	runs := []time.Duration{0}
	if first {
		runs[0] = named["first"]
	}
	if later := named["later"]; later > 0 {
		runs = append(runs, later)
	}
	for _, want := range runs {
		begin := time.Now()
		out, err := r.sh("set -e\n" + block.Text)
		took := time.Since(begin)
		if err != nil {
			r.Fatalf("README.md:%d: %v\n%s", block.Line, err, out)
		}
		if want == 0 {
			continue
		}
		r.Logf("README.md:%d: took %s, the page says %s", block.Line, took.Round(time.Second), want)
		if took > 2*want {
			r.Errorf("README.md:%d: took %s, more than twice the %s of the page", block.Line, took.Round(time.Second), want)
		}
	}
}

// around returns the text between a block and the ones before and after it.
func around(text string, blocks []doctest.Block, i int) (before, after string) {
	lines := strings.SplitAfter(text, "\n")
	end := func(b doctest.Block) int { return b.Line + strings.Count(b.Text, "\n") } // behind its last fence
	from, to := 0, len(lines)
	if i > 0 {
		from = end(blocks[i-1])
	}
	if i+1 < len(blocks) {
		to = blocks[i+1].Line - 2
	}
	return strings.Join(lines[from:blocks[i].Line-2], ""), strings.Join(lines[end(blocks[i]):to], "")
}

var duration = regexp.MustCompile(`(first|later)\s+runs?\s[^.]*?takes?\s+about\s+(\d+)\s+(seconds|minutes)`)

// durations are those that a text names for the first run and for later ones.
func durations(text string) map[string]time.Duration {
	found := map[string]time.Duration{}
	text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "") // targets of links have periods
	for _, match := range duration.FindAllStringSubmatch(strings.ToLower(text), -1) {
		n, _ := strconv.Atoi(match[2]) // digits
		found[match[1]] = time.Duration(n) * map[string]time.Duration{"seconds": time.Second, "minutes": time.Minute}[match[3]]
	}
	return found
}

// TestReadmeDurations: the page says how long the demo takes, and why a block is not run.
func TestReadmeDurations(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doctest.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	for i, block := range page.Blocks {
		if block.Language != "sh" {
			continue
		}
		before, after := around(string(text), page.Blocks, i)
		if _, reason, skipped := strings.Cut(before, notRun); skipped {
			if reason, ends := strings.CutSuffix(strings.TrimSpace(reason), "-->"); !ends || strings.TrimSpace(reason) == "" {
				t.Errorf("README.md:%d: the comment before the block is not %sREASON -->", block.Line, notRun)
			}
			continue
		}
		run = append(run, strings.TrimSpace(block.Text))
		if named := durations(after); named["first"] == 0 || named["later"] == 0 {
			t.Errorf("README.md:%d: the page names the durations %v, want first and later", block.Line, named)
		}
	}
	if diff := cmp.Diff([]string{"make demo"}, run); diff != "" {
		t.Errorf("blocks that are run: -want +got:\n%s", diff)
	}
}
