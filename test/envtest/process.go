package envtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// process is a child process of ours.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func startProcess(path, dir string, log *os.File, args []string) (*process, error) {
	cmd := proc.Command(exec.Command(path, args...))
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// waitHealthy polls url until it answers 200 or the process has exited.
func (p *process) waitHealthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The certificate is self-signed and on loopback: there is nothing to verify.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		select {
		case <-p.exited:
			return fmt.Errorf("it ended at its start: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", url, errors.Join(ctx.Err(), last))
		case <-ticker.C:
			if last = get(ctx, client, url); last == nil {
				return nil
			}
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// stop terminates the process, and kills it when it does not end in time.
func (p *process) stop() error {
	if p.hasExited() {
		return nil
	}
	if err := proc.Terminate(p.cmd); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
	}
	err := proc.Kill(p.cmd)
	<-p.exited
	return errors.Join(fmt.Errorf("%s did not end within %s and was killed", filepath.Base(p.cmd.Path), stopTimeout), err)
}
