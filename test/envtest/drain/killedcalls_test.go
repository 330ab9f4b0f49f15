package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A killer passes the requests of a controller on to the API server. Of each write it kills the
// controller before the first request, and after the API server has carried out the second one.
type killer struct {
	next  http.Handler
	of    *program
	about string
	// named finds the name of an object in a body, stated what a status says.
	named, stated *regexp.Regexp

	mutex sync.Mutex
	kills []string
	times map[string]int
	err   error
}

// newKiller prepares a killer of a program, for writes of objects whose names begin with about.
// The program has the kubeconfig of the killer then.
func newKiller(t *testing.T, of *program, about string) *killer {
	t.Helper()
	k := &killer{of: of, about: about, named: regexp.MustCompile(about + `-[a-z0-9.-]+`), stated: regexp.MustCompile(`"state":"[A-Za-z]+"`), times: map[string]int{}}
	at := slices.IndexFunc(of.args, func(arg string) bool { return strings.HasPrefix(arg, "--kubeconfig=") })
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimPrefix(of.args[at], "--kubeconfig="))
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	k.next = &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(k)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {Server: server.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {}},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	}
	if err := clientcmd.WriteToFile(kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	of.args = slices.Clone(of.args)
	of.args[at] = "--kubeconfig=" + file
	return k
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write, times := k.count(r)
	switch {
	case write == "" || times > 2:
		k.next.ServeHTTP(w, r)
		return
	case times == 2:
		k.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	k.kill(fmt.Sprintf("%d %s", times, write))
	panic(http.ErrAbortHandler)
}

// count returns which write a request is, and how often it was requested. It is empty for reads, for
// events, and for what is not about the test.
func (k *killer) count(r *http.Request) (write string, times int) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/events") {
		return "", 0
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", 0
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	write = r.Method + " " + r.URL.Path + " " + string(k.named.Find(body))
	if strings.HasSuffix(r.URL.Path, "/status") {
		write += " " + string(bytes.Join(k.stated.FindAll(body, -1), []byte(",")))
	}
	if !strings.Contains(write, k.about) {
		return "", 0
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.times[write]++
	return write, k.times[write]
}

// kill is a SIGKILL, after which the program starts again.
func (k *killer) kill(at string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.kills = append(k.kills, at)
	if err := k.of.kill(); err != nil && k.err == nil {
		k.err = err
	}
	if err := k.of.start(); err != nil && k.err == nil {
		k.err = err
	}
}

// TestReactionKilledAtEachCall: a device becomes sick. A person has cordoned the device next to it.
// kube-scheduler gives the Job of the proof exactly the sick one. The Job fails, and the cordon stays. The driver takes
// the taint back, the next Job succeeds, and the device is used again. The controller gets a SIGKILL before and after
// each of its writes: there is one drain, whose cordon exists without a break, the pod is evicted once, and each proof has
// one Job.
func TestReactionKilledAtEachCall(t *testing.T) {
	s := newSiteAlone(t, "eachcall", 3)
	s.replicas("web", 1, "")
	node, index := s.used()
	s.identify(node)
	s.wait(s.drain("-by-hand", v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{{Driver: s.driver, Pool: fmt.Sprint("node-", node), Device: fmt.Sprint("gpu-", (index+1)%3)}}}), "Cordoned=True Cordoned")
	cordons := s.countCordons()
	do(s, steward.kill())
	args := steward.args
	k := newKiller(t, steward, s.name)
	do(s, steward.start())
	t.Cleanup(func() {
		_ = steward.kill()
		steward.args = args
		if err := steward.start(); err != nil {
			t.Error(err)
		}
	})
	s.react(s.proveBy)
	seen, device := map[string]types.UID{}, v1alpha1.DeviceName{Driver: s.driver, Pool: fmt.Sprint("node-", node), Device: fmt.Sprint("gpu-", index)}
	s.sick(node, index)
	s.state(node, index, v1alpha1.ReactionDrained)
	s.tested(seen, 1, device, corev1.PodFailed)
	if message := s.proofIs(node, index, 1, v1alpha1.ProofFailed); !strings.Contains(message, "the Job failed") {
		t.Error(message)
	}
	s.wait(s.theDrain(), "Cordoned=True Cordoned")
	s.sick(node)
	s.tested(seen, 2, device, corev1.PodSucceeded)
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) {
		_, err := s.jobs(ctx, seen)
		return err == nil && len(s.made(ctx)) == 0, err
	})
	s.state(node, index, v1alpha1.ReactionHealthy)
	s.eventually("proofs are removed", func(ctx context.Context) (bool, error) {
		jobs, err := s.jobs(ctx, seen)
		return len(jobs) == 0, err
	})
	s.usedAgain(fmt.Sprintf("GPU-%d-%d", node, index))
	k.mutex.Lock()
	defer k.mutex.Unlock()
	do(s, k.err)
	t.Logf("%d SIGKILLs, before (1) and after (2):\n%s", len(k.kills), strings.Join(k.kills, "\n"))
	if len(k.kills) < 20 {
		t.Errorf("%d SIGKILLs, want at least 20", len(k.kills))
	}
	if created, deleted := cordons(); once(t, s.name) != 1 || len(seen) != 2 || created != 1 || deleted != 1 {
		t.Errorf("evicted %v, Jobs %v, cordons: %d created and %d deleted; want one pod, two Jobs, one cordon", evicted(t, s.name), seen, created, deleted)
	}
}

// countCordons counts the rules of the drains of the test's reaction that are created and deleted from now on.
func (s site) countCordons() func() (created, deleted int) {
	s.Helper()
	list, err := rules.List(s.Context(), metav1.ListOptions{})
	do(s, err)
	var mutex sync.Mutex
	mine, gone := map[string]bool{}, 0
	s.history("/registry/devicetaintrules/", list.GetResourceVersion(), func(name string, value []byte) error {
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case bytes.Contains(value, []byte(s.name+"-")):
			mine[name] = true
		case value == nil && mine[name]:
			gone++
		}
		return nil
	})
	return func() (int, int) {
		mutex.Lock()
		defer mutex.Unlock()
		return len(mine), gone
	}
}
