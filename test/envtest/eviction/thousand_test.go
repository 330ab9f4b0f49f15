package eviction_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// actAsProgram makes this test the program, so that it can be killed.
const actAsProgram = "DRA_STEWARD_ACT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], cmdutil.Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

const (
	thousand     = 1000
	fifty        = 50
	perNode      = thousand / fifty
	perSecond    = 50
	killAfter    = 200
	restartAfter = 500
)

// TestThousand evicts 1,000 pods on 50 nodes, once for a rule and once for taints in the
// slices. Meanwhile the leader is killed, the other replica takes over, and the API
// server is restarted. No pod is left and none is deleted twice: so says the audit log.
func TestThousand(t *testing.T) {
	long(t)
	var nodes []string
	for i := range fifty {
		nodes = append(nodes, fmt.Sprint("node-", i))
	}
	o := options(t, "1.37", nodes...)
	o.ControllerManagerArgs = alone
	w := start(t, o)
	w.offerOn(t, nodes)
	values := map[string]any{"mode": "full", "evictionsPerSecond": perSecond, "replicaCount": 2}
	for name, taint := range map[string]func(){
		"rule": func() {
			w.taint(t, "rule", resourceapi.DeviceTaintEffectNoExecute, fmt.Sprint("pods<=", thousand))
		},
		"slices": func() { w.taintAll(t, nodes) },
	} {
		t.Run(name, func(t *testing.T) {
			names := w.manyPods(t, name)
			args := must(controller.Install(t.Context(), w.Cluster, map[string]any{"controller": values}))(t)
			first := begin(t, args)
			eventually(t, "the first replica leads", func(context.Context) (bool, error) {
				return strings.Contains(first.log.String(), `"msg":"leading"`), nil
			})
			second := begin(t, args)
			later(t)
			taint()
			w.deleted(t, name, killAfter)
			first.kill()
			w.deleted(t, name, restartAfter)
			if err := w.RestartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.deleted(t, name, thousand)
			w.expectOnce(t, names)
			if !strings.Contains(second.log.String(), `"msg":"leading"`) {
				t.Error("the second replica never led")
			}
			second.kill()
			w.clear(t, nodes)
		})
	}
}

// A program is a replica in a process of its own, which is started again when it ends,
// as a kubelet does: it ends when it loses its Lease.
type program struct {
	log    *proc.Log
	mutex  sync.Mutex
	now    *exec.Cmd
	killed bool
	ended  chan struct{}
}

func begin(t *testing.T, args []string) *program {
	t.Helper()
	self := must(os.Executable())(t)
	p := &program{log: &proc.Log{}, ended: make(chan struct{})}
	start := func() (*exec.Cmd, error) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.killed {
			return nil, nil
		}
		p.now = exec.Command(self, args...)
		p.now.Env = append(os.Environ(), actAsProgram+"=1")
		p.now.Stdout, p.now.Stderr = p.log, p.log
		return p.now, p.now.Start()
	}
	go func() {
		defer close(p.ended)
		for {
			c, err := start()
			if err != nil {
				t.Error(err)
			}
			if c == nil || err != nil {
				return
			}
			_ = c.Wait() // that it was killed, or has lost its Lease
		}
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of the log of a replica:\n%s", p.log.String()[max(0, len(p.log.String())-4000):])
		}
	})
	return p
}

// kill ends the process as nothing can be caught, and for good.
func (p *program) kill() {
	p.mutex.Lock()
	p.killed = true
	if p.now != nil {
		_ = p.now.Process.Kill() // it may have ended
	}
	p.mutex.Unlock()
	<-p.ended
}

// offerOn publishes devices on each node.
func (w *world) offerOn(t *testing.T, nodes []string) {
	t.Helper()
	offer(t, w, 1) // the class and the template
	if err := w.ResourceV1().ResourceSlices().Delete(t.Context(), "gpus", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec.Driver, slice.Spec.NodeName = driver, &node
		slice.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
		for i := range perNode {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
		}
		must(w.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}))(t)
	}
}

// taintAll taints every device of the driver, which it is not followed in until an admin
// says so.
func (w *world) taintAll(t *testing.T, nodes []string) {
	t.Helper()
	w.changeSlices(t, nodes, []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}})
	paused := func(ctx context.Context) (bool, error) {
		list, err := w.CoreV1().Events("dra-steward").List(ctx, metav1.ListOptions{})
		for i := range list.Items {
			if list.Items[i].Reason == "EvictionPaused" {
				t.Log(list.Items[i].Message)
				return true, nil
			}
		}
		return false, err
	}
	eventually(t, "it is reported that the driver is paused", paused)
	pass(t, 5*time.Second)
	evicted := 0
	for name := range evictions(t, w.Cluster) {
		if strings.HasPrefix(name, "slices-") {
			evicted++
		}
	}
	if threshold := guard.DefaultThresholds().Pods; evicted > threshold {
		t.Errorf("%d pods were evicted without an acknowledgement, the threshold is %d", evicted, threshold)
	}
	patch := fmt.Sprintf(`{"data":{"acknowledged-impact.%s":"pods<=%d"}}`, driver, thousand)
	must(w.CoreV1().ConfigMaps("dra-steward").Patch(t.Context(), "dra-steward-controller", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func (w *world) changeSlices(t *testing.T, nodes []string, taints []resourceapi.DeviceTaint) {
	t.Helper()
	for _, node := range nodes {
		slice := must(w.ResourceV1().ResourceSlices().Get(t.Context(), node, metav1.GetOptions{}))(t)
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Taints = taints
		}
		must(w.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{}))(t)
	}
}

// clear takes the taints away.
func (w *world) clear(t *testing.T, nodes []string) {
	t.Helper()
	_ = w.rules.Delete(t.Context(), "rule", metav1.DeleteOptions{}) // there may be none
	w.changeSlices(t, nodes, nil)
}

// manyPods creates a thousand pods and waits until they run.
func (w *world) manyPods(t *testing.T, prefix string) (names []string) {
	t.Helper()
	for i := range thousand {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
		must(w.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		names = append(names, pod.Name)
	}
	last := 0
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running", ResourceVersion: "0"})
		last = len(list.Items)
		return last == thousand, err
	})
	if err != nil {
		t.Fatalf("%d of %d pods run: %v", last, thousand, err)
	}
	return names
}

// deleted waits until so many of the pods are gone.
func (w *world) deleted(t *testing.T, prefix string, want int) {
	t.Helper()
	last := 0
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // it is restarted
		}
		last = thousand
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, prefix+"-") {
				last--
			}
		}
		return last >= want, nil
	})
	if err != nil {
		t.Fatalf("%d of %d pods are deleted: %v", last, want, err)
	}
}

// expectOnce fails unless each pod was deleted by one request of ours. One that the API
// server was asked for while it was stopped may be answered with 504 and be carried out.
func (w *world) expectOnce(t *testing.T, names []string) {
	t.Helper()
	accepted, timedOut := map[string]int{}, map[string]int{}
	for _, e := range audit(t, w.Cluster) {
		if e.Verb != "delete" || e.ObjectRef.Resource != "pods" || e.User.Username != ours {
			continue
		}
		switch {
		case e.ResponseStatus.Code < 300:
			accepted[e.ObjectRef.Name]++
		case e.ResponseStatus.Code == http.StatusGatewayTimeout:
			timedOut[e.ObjectRef.Name]++
		}
	}
	for _, name := range names {
		if accepted[name] != 1 && (accepted[name] != 0 || timedOut[name] == 0) {
			t.Errorf("%s: %d deletions were accepted, %d timed out", name, accepted[name], timedOut[name])
		}
	}
	t.Logf("%d deletions accepted, %d answered with 504", len(accepted), len(timedOut))
}
