// Command program is the oracle of one Kubernetes minor: it reads writes from
// standard input, a line of JSON each, and answers on standard output what the
// registry strategies of that minor's API server do with them.
//
// It is compiled against the k8s.io/kubernetes of each minor in turn. What differs
// between them is in the files minor_*.go, which a build tag chooses from.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/klog/v2"

	"oracle/wire"
)

// chunk is how many lines are read before they are answered; they are divided among
// the workers.
const chunk = 64

func main() {
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "`number` of cases judged at once")
	flag.Parse()
	// Mismatches between the two kinds of validation are logged, at a rate that would
	// slow everything down.
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	// As kube-apiserver does when it starts: some defaults of gates depend on it.
	if err := compatibility.DefaultComponentGlobalsRegistry.Set(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	if err := serve(os.Stdin, os.Stdout, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers the lines of in, in their order. It answers a chunk as soon as no
// more input is waiting, so that a client may write one line and wait.
func serve(in io.Reader, out io.Writer, workers int) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriterSize(out, 1<<20)
	for {
		lines, end := read(reader)
		if end != nil && end != io.EOF {
			return end
		}
		answers := make([][]byte, len(lines))
		judge(lines, answers, workers)
		for _, answer := range answers {
			if _, err := writer.Write(append(answer, '\n')); err != nil {
				return err
			}
		}
		if reader.Buffered() == 0 || end == io.EOF {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
	}
}

// read reads at least one line, and up to a chunk of those that are there already.
func read(reader *bufio.Reader) (lines [][]byte, err error) {
	for len(lines) < chunk {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			lines = append(lines, line)
		}
		if err != nil {
			return lines, err
		}
		if reader.Buffered() == 0 {
			break
		}
	}
	return lines, nil
}

// judge answers lines. Feature gates belong to the whole process, so only neighbours
// with the same gates are judged at once.
func judge(lines, answers [][]byte, workers int) {
	cases := make([]wire.Case, len(lines))
	problems := make([]string, len(lines))
	parallel(len(lines), workers, func(i int) {
		if err := json.Unmarshal(lines[i], &cases[i]); err != nil {
			problems[i] = "the line is no case: " + err.Error()
		}
	})
	for from := 0; from < len(cases); {
		to := from + 1
		for to < len(cases) && sameGates(cases[from].Gates, cases[to].Gates) {
			to++
		}
		problem := ""
		if err := setGates(cases[from].Gates); err != nil {
			problem = err.Error()
		}
		parallel(to-from, workers, func(i int) {
			i += from
			answer := wire.Answer{ID: cases[i].ID, Misuse: problem + problems[i]}
			if answer.Misuse == "" {
				answer = answerTo(cases[i])
			}
			answers[i], _ = json.Marshal(answer) // strings and valid JSON only
		})
		from = to
	}
}

func parallel(n, workers int, do func(i int)) {
	var group sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range min(workers, n) {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range next {
				do(i)
			}
		}()
	}
	group.Wait()
}
