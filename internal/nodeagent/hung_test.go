package nodeagent

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/cdi"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// A hungKubelet accepts calls and does not answer.
type hungKubelet struct {
	v1.UnimplementedPodResourcesListerServer
}

func (hungKubelet) List(ctx context.Context, _ *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestHungKubelet: a kubelet that does not answer costs a look its source, and no more time than it may
// take.
func TestHungKubelet(t *testing.T) {
	nodeView, err := NewNodeView(&rest.Config{Host: "127.0.0.1:1"}, "node-1", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	v1.RegisterPodResourcesListerServer(server, hungKubelet{})
	kubelet := podresources.New(podresources.Options{Socket: listen(t, server)})
	defer kubelet.Close()
	a := NewAgent(Options{Kubelet: kubelet, NodeView: nodeView, CDI: cdi.Options{Dirs: []string{t.TempDir()}}, Log: logr.Discard()})
	if a.kubeletTime != kubeletTime || a.claimsTime != claimsTime {
		t.Fatalf("%s for the kubelet, %s for claims", a.kubeletTime, a.claimsTime)
	}
	a.kubeletTime = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if report := a.Collect(ctx, time.Now()); ctx.Err() != nil || report.Sources["podresources"] || !report.Sources["api"] || !report.Stale {
		t.Errorf("%v, %+v", ctx.Err(), report)
	}
	if _, err := a.list(ctx, time.Now()); status.Code(errors.Unwrap(err)) != codes.DeadlineExceeded || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// hungServer is an API server that does not answer.
type hungServer struct{}

func (hungServer) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestHungServer: an API server that does not answer does not stop the agent either.
func TestHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "127.0.0.1:1", Transport: hungServer{}})
		if err != nil {
			t.Fatal(err)
		}
		a := NewAgent(Options{NodeView: &NodeView{client: client}})
		begun := time.Now()
		_, _, err = a.claims(t.Context(), []*corev1.Pod{podOf("a", "own", "other")}, begun)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != claimsTime {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestHungLook: a look that waits for the API server does not keep the others from what they have.
func TestHungLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "127.0.0.1:1", Transport: hungServer{}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		own := claimFor("own", resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "a", UID: "a"})
		w := &NodeView{client: client, claims: map[string]knownClaim{"ml/own": {own, map[types.UID]bool{"a": true}}}, latest: begun, asOf: begun}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _, _, _ = w.Claims(ctx, []*corev1.Pod{podOf("a", "own", "other")}, begun.Add(time.Second)) }()
		synctest.Wait()
		claims, _, err := w.Claims(ctx, []*corev1.Pod{podOf("a", "own")}, begun.Add(2*time.Second))
		if took := time.Since(begun); took > 0 || err != nil || len(claims) != 1 {
			t.Errorf("%d claims after %s, %v", len(claims), took, err)
		}
		<-ctx.Done()
		synctest.Wait()
		if !w.asOf.Equal(begun.Add(2*time.Second)) || len(w.claims) != 1 {
			t.Errorf("after the look that began earlier: as of %s, %d claims", w.asOf, len(w.claims))
		}
	})
}

// TestNoWatcher: the agent of a node that has no inotify instance left looks at files at each interval.
func TestNoWatcher(t *testing.T) {
	a := NewAgent(Options{Log: logr.Discard()})
	a.newWatcher = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	watcher, files := a.watchFiles()
	if watcher != nil || files != nil {
		t.Errorf("%v, %v", watcher, files)
	}
	a.watch(watcher)
}
