package scheduler_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/testsupport/freeport"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

const (
	throughputNodes   = 10
	throughputDevices = 64 // of each node
	throughputPods    = 500
	singlePods        = 50
)

// A contender is a scheduler that is measured.
type contender struct {
	name, program, configuration string
	patches                      int
}

// A figures is what one round says of a contender.
type figures struct {
	perSecond, processorTime, single, longest float64 // the latter three in milliseconds
}

// BenchmarkThroughput lets schedulers work by turns on one control plane, without their
// limit of requests: the released kube-scheduler, and ours with patches of which one
// selects every device. What is reported of each is the median of the rounds.
//
// In a round a scheduler is started, and 50 pods with a claim come one after the other:
// measured is from the request for a claim and its pod until the pod is seen to be bound.
// Then the process is halted until 500 such pods are there; measured is from the first
// binding of them to the last one, and what processor time the process takes for that,
// which depends less on what the API server and etcd take.
//
// DRA_STEWARD_PROFILES is a folder for profiles of the processor time of each.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []struct {
		slices, rounds int
		patches        []int
	}{{0, 5, []int{0}}, {10000, 3, []int{0, 100, 1000}}} {
		b.Run(fmt.Sprintf("%d more slices", size.slices), func(b *testing.B) {
			contenders := contenders(b, size.patches)
			for range b.N {
				compare(b, size.slices, size.rounds, contenders)
			}
		})
	}
}

func contenders(b *testing.B, patches []int) []contender {
	b.Helper()
	set, err := assets.Get(b.Context(), assets.Options{Kubernetes: "1.37", Binaries: []string{assets.Scheduler}, Output: b.Output()})
	if err != nil {
		b.Fatal(err)
	}
	ours, err := program()
	if err != nil {
		b.Fatal(err)
	}
	all := []contender{{name: "stock", program: set.Path(assets.Scheduler)}}
	for _, n := range patches {
		all = append(all, contender{fmt.Sprintf("%d-patches", n), ours, onlyPatched, n})
	}
	return all
}

// compare measures the contenders by turns and reports the medians.
func compare(b *testing.B, more, rounds int, contenders []contender) {
	b.Helper()
	w := startWith(b, envtest.Options{Nodes: throughputNodeNames()})
	w.installType(b)
	w.grant(b)
	w.publishMany(b, more)
	bound := w.bindings(b)
	seen := map[string][]figures{}
	patched := 0
	for round := range rounds {
		for _, c := range contenders {
			w.setPatches(b, patched, c.patches)
			patched = c.patches
			f := w.measure(b, c, fmt.Sprintf("%s-%d", c.name, round), bound)
			b.Logf("round %d, %s: %.1f pods/s, %.2f ms of processor time for each; single pods %.1f ms, longest %.0f ms", round, c.name, f.perSecond, f.processorTime, f.single, f.longest)
			seen[c.name] = append(seen[c.name], f)
		}
	}
	for _, c := range contenders {
		b.ReportMetric(median(seen[c.name], func(f figures) float64 { return f.perSecond }), c.name+"-pods/s")
		b.ReportMetric(median(seen[c.name], func(f figures) float64 { return f.processorTime }), c.name+"-cpu-ms/pod")
		b.ReportMetric(median(seen[c.name], func(f figures) float64 { return f.single }), c.name+"-single-ms")
		b.ReportMetric(median(seen[c.name], func(f figures) float64 { return f.longest }), c.name+"-longest-ms")
	}
}

func median(all []figures, of func(figures) float64) float64 {
	var values []float64
	for _, f := range all {
		values = append(values, of(f))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func throughputNodeNames() (names []string) {
	for i := range throughputNodes {
		names = append(names, fmt.Sprintf("node-%d", i))
	}
	return names
}

// publishMany publishes the devices of the nodes, and slices of nodes that are not there.
func (w *world) publishMany(b *testing.B, more int) {
	b.Helper()
	var work []func()
	for _, node := range throughputNodeNames() {
		var all []resourceapi.Device
		for i := range throughputDevices {
			all = append(all, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		work = append(work, func() { w.publish(b, node, all...) })
	}
	for i := range more {
		work = append(work, func() { w.publish(b, fmt.Sprintf("other-%d", i), resourceapi.Device{Name: "gpu-0"}) })
	}
	parallel(b, work)
}

// setPatches creates or deletes patches until there are as many as wanted.
func (w *world) setPatches(b *testing.B, before, wanted int) {
	b.Helper()
	var work []func()
	for i := before; i < wanted; i++ {
		filter, attribute := fmt.Sprintf("{pool: node-%d}", i/2%throughputNodes), fmt.Sprintf("rack%d", i%20)
		switch {
		case i == 0:
			filter, attribute = "{driver: "+driver+"}", "everywhere"
		case i%2 == 0:
			filter = fmt.Sprintf("{pool: other-%d}", i)
		}
		work = append(work, func() {
			w.patch(b, fmt.Sprintf("patch-%d", i), fmt.Sprintf("{filter: %s, attributes: {dc.example.com/%s: {string: here}}}", filter, attribute))
		})
	}
	for i := wanted; i < before; i++ {
		work = append(work, func() { w.unpatch(b, fmt.Sprintf("patch-%d", i)) })
	}
	parallel(b, work)
}

// measure is one round of one contender.
func (w *world) measure(b *testing.B, c contender, name string, bound <-chan time.Time) (f figures) {
	b.Helper()
	p := w.run(b, c, name)
	defer p.stop(b)
	selector := ""
	if c.patches > 0 { // shows that patches count
		selector = `device.attributes["dc.example.com"].everywhere == "here"`
	}
	w.ask(b, name+"-first", "", selector)
	next(b, bound)
	var took []float64
	for i := range singlePods {
		begin := time.Now()
		w.ask(b, fmt.Sprintf("%s-single-%d", name, i), "", "")
		took = append(took, float64(next(b, bound).Sub(begin).Microseconds())/1000)
	}
	slices.Sort(took)
	f.single, f.longest = took[len(took)/2], took[len(took)-1]
	p.signal(b, syscall.SIGSTOP)
	var work []func()
	for i := range throughputPods {
		work = append(work, func() { w.ask(b, fmt.Sprintf("%s-%d", name, i), "", "") })
	}
	parallel(b, work)
	spent := p.processorTime(b)
	profiled := p.profile(b, name)
	p.signal(b, syscall.SIGCONT)
	first := next(b, bound)
	last := first
	for range throughputPods - 1 {
		last = next(b, bound)
	}
	f.perSecond = (throughputPods - 1) / last.Sub(first).Seconds()
	f.processorTime = (p.processorTime(b) - spent).Seconds() * 1000 / throughputPods
	<-profiled
	w.clear(b)
	return f
}

// clear removes all pods and their claims.
func (w *world) clear(b *testing.B) {
	b.Helper()
	now := metav1.DeleteOptions{}
	if err := w.CoreV1().Pods("default").DeleteCollection(b.Context(), now, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	claims := w.ResourceV1().ResourceClaims("default")
	all, err := claims.List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var work []func()
	for _, claim := range all.Items {
		work = append(work, func() {
			// The controller manager does that, too, but only 20 a second.
			_, err := claims.Patch(b.Context(), claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err == nil {
				err = claims.Delete(b.Context(), claim.Name, now)
			}
			if err != nil && !apierrors.IsNotFound(err) {
				b.Fatal(err)
			}
		})
	}
	parallel(b, work)
	eventually(b, "all pods and claims are gone", func() bool {
		pods, err := w.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		all, err := claims.List(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return len(pods.Items)+len(all.Items) == 0
	})
}

// A schedulerProcess is a scheduler at work.
type schedulerProcess struct {
	*exec.Cmd
	address string
}

// run starts a scheduler.
func (w *world) run(b *testing.B, c contender, name string) *schedulerProcess {
	b.Helper()
	kubeconfig, err := w.UserKubeconfig("system:kube-scheduler")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"clientConnection: {qps: 5000, burst: 5000, kubeconfig: " + kubeconfig + "}\n" + c.configuration
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	address, err := freeport.Loopback()
	if err != nil {
		b.Fatal(err)
	}
	flags := map[string]string{
		"config": config, "leader-elect": "false", "bind-address": "127.0.0.1", "secure-port": address[strings.LastIndexByte(address, ':')+1:],
		"authorization-always-allow-paths": "/debug/pprof/*",
	}
	if c.configuration != "" {
		flags["sole-scheduler"] = "true"
	}
	var args []string
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+flag+"="+flags[flag])
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), c.program, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if text, err := os.ReadFile(log.Name()); err == nil && b.Failed() {
			b.Logf("%s: the end of its log:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	return &schedulerProcess{command, address}
}

func (p *schedulerProcess) stop(b *testing.B) {
	b.Helper()
	p.signal(b, syscall.SIGCONT)
	p.signal(b, syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			b.Error(err)
		}
	}
}

func (p *schedulerProcess) signal(b *testing.B, signal os.Signal) {
	b.Helper()
	if err := p.Process.Signal(signal); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what the process has taken of the processors.
func (p *schedulerProcess) processorTime(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	// After the name, which may have spaces: the state is the third field.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// profile takes a profile of the processor time, if that is asked for. The channel is
// closed when it is written.
func (p *schedulerProcess) profile(b *testing.B, name string) <-chan struct{} {
	b.Helper()
	done := make(chan struct{})
	dir := os.Getenv("DRA_STEWARD_PROFILES")
	if dir == "" {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		if err := fetch(b.Context(), p.address, filepath.Join(dir, name+".pprof")); err != nil {
			b.Error(err)
		}
	}()
	return done
}

func fetch(ctx context.Context, address, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/debug/pprof/profile?seconds=3", nil)
	if err != nil {
		return err
	}
	// The certificate is self-signed and on loopback: there is nothing to verify.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", response.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
