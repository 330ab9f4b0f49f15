package installed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dra-steward/dra-steward/internal/testsupport/testmemory"
)

// A Pod is one process.
type Pod struct {
	// Object is the pod when it was bound to a node.
	Object  *corev1.Pod
	Address string
	Started time.Time

	kubelet *Kubelet
	once    sync.Once
	deleted chan struct{} // closed when it is to end
	process *exec.Cmd
	mutex   sync.Mutex // guards what follows
	ready   time.Time
	killed  bool // on purpose
}

// Ready is when the readiness probe succeeded first; zero if it has not yet.
func (p *Pod) Ready() time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.ready
}

// URL is where a port of the container answers HTTP.
func (p *Pod) URL(port, path string) string {
	for _, known := range p.Object.Spec.Containers[0].Ports {
		if known.Name == port {
			return fmt.Sprintf("http://%s:%d%s", p.Address, known.ContainerPort, path)
		}
	}
	return "no port " + port
}

// Kill ends the process at once, as if it had crashed. The pod stays, not ready, until it
// is deleted.
func (p *Pod) Kill() error { return p.Signal(syscall.SIGKILL) }

func (p *Pod) wasKilled() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.killed
}

// Signal sends a signal to the process, such as SIGSTOP. A process that SIGKILL ends is
// expected to end badly, also where its pod is being deleted already. The error is
// [os.ErrProcessDone] if the process has ended.
func (p *Pod) Signal(s syscall.Signal) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.killed = p.killed || s == syscall.SIGKILL
	if p.process == nil || p.process.Process == nil {
		return errNotStarted
	}
	return p.process.Process.Signal(s)
}

// Memory is what the process holds in RAM, in bytes.
func (p *Pod) Memory() (int64, error) { return p.memory("VmRSS") }

// PeakMemory is the most that the process has held in RAM, in bytes.
func (p *Pod) PeakMemory() (int64, error) { return p.memory("VmHWM") }

// errNotStarted is that of a pod whose process is not there yet.
var errNotStarted = errors.New("the process has not started yet")

func (p *Pod) memory(key string) (int64, error) {
	p.mutex.Lock()
	process := p.process
	p.mutex.Unlock()
	if process == nil || process.Process == nil {
		return 0, errNotStarted
	}
	return testmemory.Of(process.Process.Pid, key)
}

// ending reports whether the pod is being deleted.
func (p *Pod) ending() bool {
	select {
	case <-p.deleted:
		return true
	default:
		return false
	}
}

func (p *Pod) terminate() { p.once.Do(func() { close(p.deleted) }) }

// run is the pod's life.
func (p *Pod) run(ctx context.Context) error {
	release, err := assign(p.Address)
	if err != nil {
		return err
	}
	defer release()
	log, err := os.Create(filepath.Join(p.kubelet.dir, p.Object.Name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command, ended, err := p.start(ctx, log)
	if err != nil {
		return err
	}
	if p.Object.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return p.complete(ctx, command, ended)
	}
	probing, cancel := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { p.probe(probing) })
	stop := func() {
		cancel()
		probes.Wait()
	}
	defer stop()
	select {
	case <-ctx.Done():
	case <-p.deleted:
	case err := <-ended: // a crash: no process, and so not ready, until it is deleted
		fmt.Fprintln(log, "the process ended:", err)
		stop()
		_ = p.kubelet.status(ctx, p, false)
		select {
		case <-ctx.Done():
		case <-p.deleted:
		}
		return p.kubelet.remove(context.WithoutCancel(ctx), p.Object)
	}
	return p.end(ctx, command, ended)
}

// start starts the process, which writes into log; how it ended is sent.
func (p *Pod) start(ctx context.Context, log *os.File) (*exec.Cmd, <-chan error, error) {
	command, err := p.command(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s: %w", p.Object.Name, err)
	}
	command.Stdout, command.Stderr = log, log
	p.mutex.Lock()
	p.process = command
	err = command.Start()
	p.mutex.Unlock()
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	return command, ended, nil
}

// complete waits for the process of a Job, whose pod stays until it is deleted.
func (p *Pod) complete(ctx context.Context, command *exec.Cmd, ended <-chan error) error {
	select {
	case <-ctx.Done():
		return p.end(ctx, command, ended)
	case <-p.deleted:
		return p.end(ctx, command, ended)
	case err := <-ended:
		phase := corev1.PodSucceeded
		if err != nil {
			phase = corev1.PodFailed
		}
		return p.kubelet.finished(ctx, p, phase)
	}
}

// end gives the process its grace period, and removes the pod. How a process ended that was told
// nothing, that did not handle signals yet, or that was ending because it had lost its Lease, says
// nothing of how it ends.
func (p *Pod) end(ctx context.Context, command *exec.Cmd, ended <-chan error) error {
	told := command.Process.Signal(syscall.SIGTERM) == nil
	select {
	case err := <-ended:
		log := strings.TrimSpace(p.kubelet.Log(p.Object.Name))
		lost := strings.HasSuffix(log, "dra-steward: lost the Lease: it was not renewed in time, or another replica holds it")
		if err != nil && told && !lost && !p.wasKilled() && !(unhandled(command) && log == "") {
			return fmt.Errorf("pod %s did not end well: %w\n%s", p.Object.Name, err, log)
		}
	case <-time.After(time.Duration(*p.Object.Spec.TerminationGracePeriodSeconds) * time.Second):
		_ = command.Process.Kill()
		<-ended
		return fmt.Errorf("pod %s outlived its grace period\n%s", p.Object.Name, p.kubelet.Log(p.Object.Name))
	}
	return p.kubelet.remove(context.WithoutCancel(ctx), p.Object)
}

// unhandled reports whether SIGTERM ended the process, which the program handles once it runs.
func unhandled(command *exec.Cmd) bool {
	status, is := command.ProcessState.Sys().(syscall.WaitStatus)
	return is && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// probe asks the readiness probe for as long as the pod lives.
func (p *Pod) probe(ctx context.Context) {
	probe := p.Object.Spec.Containers[0].ReadinessProbe
	client := &http.Client{Timeout: time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second}
	url := p.URL(probe.HTTPGet.Port.StrVal, probe.HTTPGet.Path)
	if probe.HTTPGet.Port.Type == intstr.Int {
		url = fmt.Sprintf("http://%s:%d%s", p.Address, probe.HTTPGet.Port.IntVal, probe.HTTPGet.Path)
	}
	marked, failures := false, int32(0)
	_ = p.kubelet.status(ctx, p, false)
	for {
		good := asks(ctx, client, url)
		switch {
		case good && !marked:
			p.mutex.Lock()
			if p.ready.IsZero() {
				p.ready = time.Now()
			}
			p.mutex.Unlock()
			failures, marked = 0, p.kubelet.status(ctx, p, true) == nil
		case good:
			failures = 0
		default:
			if failures++; marked && failures >= max(probe.FailureThreshold, 1) {
				marked = p.kubelet.status(ctx, p, false) != nil
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.untilProbe(probe)):
		}
	}
}

// starting is how often a pod is asked until it is ready for the first time. A kubelet
// waits a period of the probe, up to five seconds, in which tests would learn nothing.
const starting = 200 * time.Millisecond

// untilProbe is how long to wait for the next probe.
func (p *Pod) untilProbe(probe *corev1.Probe) time.Duration {
	if p.Ready().IsZero() {
		return starting
	}
	return time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
}

func asks(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode < http.StatusBadRequest
}
